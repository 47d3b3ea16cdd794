# %% [markdown] id="title"
# # 09 Profiling: a trace that you can act on
#
# "The GPU is at 40 % and I don't know why."

# %% id="instruments"
import onelayer
