"""The public names for type checkers; __init__.py loads them when they are first used."""

from attnrate.errors import AccuracyWarning as AccuracyWarning
from attnrate.errors import AttnrateError as AttnrateError
from attnrate.errors import InputError as InputError
from attnrate.errors import StoreError as StoreError
from attnrate.fitting.bracket import bracket as bracket
from attnrate.fitting.fit import fit as fit
from attnrate.fitting.sweep import sweep as sweep
from attnrate.models import LinearRNN as LinearRNN
from attnrate.models import Transformer as Transformer
from attnrate.reproduction import reproduce as reproduce
from attnrate.spectra.advise import advise as advise
from attnrate.spectra.profile import profile as profile
from attnrate.targets import AttentionTarget as AttentionTarget
from attnrate.targets import PositionedInputs as PositionedInputs
from attnrate.targets import UniformInputs as UniformInputs
from attnrate.targets import centre_of_gravity as centre_of_gravity
from attnrate.targets import gravity as gravity
from attnrate.targets import linear_target as linear_target
from attnrate.targets import move_to_end as move_to_end
from attnrate.targets import nearest_point as nearest_point
from attnrate.targets import selection as selection
from attnrate.targets import spectral_coupling as spectral_coupling
from attnrate.targets import spectral_target as spectral_target
from attnrate.targets import swap_ends as swap_ends
from attnrate.targets import uniform_kernel as uniform_kernel
from attnrate.theory.bounds import best_split as best_split
from attnrate.theory.bounds import jackson_bound as jackson_bound
from attnrate.theory.compile import compile_target as compile_target
from attnrate.theory.complexity import complexity as complexity
from attnrate.theory.decay import fit_decay as fit_decay
from attnrate.theory.domain import Samples as Samples
from attnrate.theory.domain import box as box
from attnrate.theory.domain import union as union
from attnrate.theory.pod import pod as pod
from attnrate.theory.recurrent import rnn_complexity as rnn_complexity
from attnrate.theory.represent import represent as represent
from attnrate.training.train import train as train
from attnrate.training.train import trained as trained

__version__: str
