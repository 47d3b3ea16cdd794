# %% [markdown] id="title"
# # One Layer Deep
# PyTorch from the inside, followed through one real layer: `nn.Linear(64, 600)`, the head of a
# small language model that conjugates verbs. Read a chapter, then solve its lab: it tells you at
# once what is wrong.

# %% id="layer"
from torch import nn

from autograder import progress
from autograder.notebook import doctor, units

nn.Linear(64, 600)

# %% [markdown] id="where-to-go"
# ## Where to go
# Start with the first chapter. A lab takes one to two hours, and each can be done on its own.

# %% id="units"
units()

# %% [markdown] id="how-far"
# ## How far you are

# %% id="progress"
progress()

# %% [markdown] id="your-machine"
# ## Your machine

# %% id="doctor"
doctor()
