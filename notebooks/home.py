# %% [markdown] id="title"
# # One Layer Deep
# PyTorch from the inside, followed through one real layer: `nn.Linear(64, 600)`, the head of a
# small language model that conjugates verbs. Read a chapter, then solve its lab: it tells you at
# once what is wrong. Start with chapter 00; a lab takes one to two hours, and each can be done on
# its own. How far you are, and which question comes next, says the first of the two cells with code
# when you run it; what this machine can do, the second. Click into one and press Shift+Enter.

# %% id="progress"
from autograder import progress

progress()

# %% [markdown] id="units"
# ## The units
# {{units}}

# %% [markdown] id="your-machine"
# ## What this machine can do

# %% id="doctor"
from autograder.notebook import doctor

doctor()
