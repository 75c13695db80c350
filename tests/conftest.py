"""What all tests share."""
import torch
from hypothesis import settings

settings.register_profile("book", deadline=None)      # no test measures time
settings.load_profile("book")
torch.set_num_threads(1)                              # the tensors are small: threads would only cost
