import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
if not torch.cuda.is_available():
    os.environ['TRITON_INTERPRET'] = '1'                # before a test imports a kernel
