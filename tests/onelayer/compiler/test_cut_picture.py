"""show_cut: what it says of a graph, against the graph itself, and what it refuses."""

import pytest
import torch
import torch.nn.functional as F

import onelayer


def clamped_loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w).clamp(-3, 3).logsumexp(1).mean()


@pytest.fixture(scope="module")
def story():
    w = torch.randn(6, 4, requires_grad=True)
    return onelayer.compile_story(clamped_loss, torch.randn(3, 4), w, backend="aot_eager")


def test_what_is_kept_stands_at_its_maker_with_its_bytes(story) -> None:
    picture = onelayer.show_cut(story)
    kept = [row.kept for row in picture.forward if row.kept]
    piece = story.pieces[0]
    assert kept
    assert sum(one.nbytes for one in kept) == piece.saved_bytes
    assert {name for row in picture.backward for name in row.reads} == {one.name for one in kept}


def test_both_sides_are_drawn_for_both_themes_and_said_in_words(story) -> None:
    picture = onelayer.show_cut(story)
    assert repr(picture).startswith("forward:\n  mm")
    assert "\nbackward:\n" in repr(picture)
    light, dark = picture.images
    assert light != dark
    assert "onelayer-dark" in picture.html()


def test_a_story_without_a_gradient_has_no_cut() -> None:
    with torch.no_grad():
        story = onelayer.compile_story(
            clamped_loss, torch.randn(3, 4), torch.randn(6, 4), backend="aot_eager"
        )
    with pytest.raises(ValueError, match="no backward"):
        onelayer.show_cut(story)
    with pytest.raises(IndexError):
        onelayer.show_cut(story, piece=5)
