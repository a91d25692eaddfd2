"""The one list of public names, for type checkers and, read by `__init__.py`, for Python.

A section for each page of the reference (docs/reference), where every name has its entry.
"""

# ---- errors and words
from .errors import AccuracyWarning as AccuracyWarning
from .errors import AttnrateError as AttnrateError
from .errors import InputError as InputError
from .errors import StoreError as StoreError
from .figures.drawing import Drawing as Drawing
from .words import Gauge as Gauge
from .words import Norm as Norm

# ---- spectra of couplings (POD)
from .targets.couplings import Coupling as Coupling
from .targets.couplings import CouplingLike as CouplingLike
from .targets.couplings import FactoredCoupling as FactoredCoupling
from .targets.couplings import FunctionCoupling as FunctionCoupling
from .targets.couplings import SpectralCoupling as SpectralCoupling
from .targets.couplings import spectral_coupling as spectral_coupling
from .theory.decay import Decay as Decay
from .theory.decay import fit_decay as fit_decay
from .theory.decomposition import Pod as Pod
from .theory.domain import DomainLike as DomainLike
from .theory.domain import Region as Region
from .theory.domain import Samples as Samples
from .theory.domain import box as box
from .theory.domain import union as union
from .theory.pod import pod as pod
from .theory.watch import PodProgress as PodProgress

# ---- bounds, complexity, compiled models
from .theory.bound_curve import BoundCurve as BoundCurve
from .theory.bound_curve import bound_curve as bound_curve
from .theory.bounds import Bound as Bound
from .theory.bounds import Split as Split
from .theory.bounds import best_split as best_split
from .theory.bounds import jackson_bound as jackson_bound
from .theory.check import Check as Check
from .theory.compile import compile_target as compile_target
from .theory.complexity import Complexity as Complexity
from .theory.complexity import complexity as complexity
from .theory.feedforward import Barron as Barron
from .theory.feedforward import FeedForwardFamily as FeedForwardFamily
from .theory.feedforward import Hoelder as Hoelder
from .theory.feedforward import Interpolant as Interpolant
from .theory.feedforward import KlusowskiBarron as KlusowskiBarron
from .theory.feedforward import Sobolev as Sobolev
from .theory.invariants import check_B_1_1 as check_B_1_1
from .theory.invariants import check_B_1_2 as check_B_1_2
from .theory.invariants import check_B_1_3 as check_B_1_3
from .theory.permuting import check_6_2 as check_6_2
from .theory.propositions import check_6_1 as check_6_1
from .theory.propositions import check_6_3 as check_6_3
from .theory.propositions import check_equivariance as check_equivariance
from .theory.propositions import check_propositions as check_propositions
from .theory.recurrent import RNNComplexity as RNNComplexity
from .theory.recurrent import rnn_complexity as rnn_complexity
from .theory.represent import Superposition as Superposition
from .theory.represent import pair_product as pair_product
from .theory.represent import product_and_sum as product_and_sum
from .theory.represent import represent as represent

# ---- targets and laws of the inputs
from .settings import Settings as Settings
from .targets import AttentionTarget as AttentionTarget
from .targets import ErrorEstimate as ErrorEstimate
from .targets import GaussianInputs as GaussianInputs
from .targets import IndependentInputs as IndependentInputs
from .targets import InputLaw as InputLaw
from .targets import LinearTarget as LinearTarget
from .targets import MixedTarget as MixedTarget
from .targets import PermutedAttentionTarget as PermutedAttentionTarget
from .targets import PermutedTarget as PermutedTarget
from .targets import PositionedInputs as PositionedInputs
from .targets import SampledInputs as SampledInputs
from .targets import Target as Target
from .targets import UniformInputs as UniformInputs
from .targets import centre_of_gravity as centre_of_gravity
from .targets import convolve as convolve
from .targets import error_of as error_of
from .targets import gravity as gravity
from .targets import identity as identity
from .targets import linear_target as linear_target
from .targets import move_to_end as move_to_end
from .targets import nearest_point as nearest_point
from .targets import selection as selection
from .targets import selection_example as selection_example
from .targets import spectral_target as spectral_target
from .targets import swap_ends as swap_ends
from .targets import uniform_kernel as uniform_kernel
from .targets.build import build_target as build_target

# ---- models
from .models import GRU as GRU
from .models import Beside as Beside
from .models import CausalConvolution as CausalConvolution
from .models import CouplingTransformer as CouplingTransformer
from .models import LearnedCoupling as LearnedCoupling
from .models import LinearRNN as LinearRNN
from .models import PositionEncoding as PositionEncoding
from .models import SequenceModel as SequenceModel
from .models import StateSpace as StateSpace
from .models import Transformer as Transformer
from .models import feed_forward as feed_forward
from .models import hold_values as hold_values
from .models import nearest_size as nearest_size
from .models import position_encoding as position_encoding
from .models.build import build_model as build_model
from .models.decoding import Translator as Translator
from .models.decoding import translate as translate
from .models.rivals import GRUTranslator as GRUTranslator
from .models.rivals import GRUTranslatorSettings as GRUTranslatorSettings
from .models.rivals import Scanner as Scanner
from .models.rivals import ScannerSettings as ScannerSettings
from .models.rivals import scanner_like as scanner_like
from .models.rivals import translator_like as translator_like
from .models.seq2seq import Seq2Seq as Seq2Seq
from .models.seq2seq import Seq2SeqSettings as Seq2SeqSettings
from .models.vit import ViT as ViT
from .models.vit import ViTSettings as ViTSettings

# ---- fits, brackets, sweeps
from .fitting.bracket import Bracket as Bracket
from .fitting.bracket import Sources as Sources
from .fitting.bracket import bracket as bracket
from .fitting.fit import Fit as Fit
from .fitting.fit import fit as fit
from .fitting.given import initial as initial
from .fitting.job import Job as Job
from .fitting.job import Sized as Sized
from .fitting.job import key_of as key_of
from .fitting.recipe import Recipe as Recipe
from .fitting.recipe import RecipeChanges as RecipeChanges
from .fitting.recipe import as_recipe as as_recipe
from .fitting.records import Failed as Failed
from .fitting.records import Finished as Finished
from .fitting.records import Status as Status
from .fitting.result import SweepResult as SweepResult
from .fitting.spec import SweepSpec as SweepSpec
from .fitting.store import Store as Store
from .fitting.sweep import sweep as sweep
from .fitting.sweep import sweep_status as sweep_status
from .fitting.train import Look as Look
from .fitting.trial import Trial as Trial
from .statistics import Interval as Interval
from .statistics import geometric_mean as geometric_mean
from .statistics import mean as mean
from .statistics import slope as slope

# ---- profiles of trained models
from .spectra.advise import Advice as Advice
from .spectra.advise import Checked as Checked
from .spectra.advise import LayerAdvice as LayerAdvice
from .spectra.advise import advise as advise
from .spectra.batches import Inputs as Inputs
from .spectra.load import LoadedModel as LoadedModel
from .spectra.load import load_model as load_model
from .spectra.measures import rank_of as rank_of
from .spectra.measures import stable_rank as stable_rank
from .spectra.measures import tails as tails
from .spectra.profile import profile as profile
from .spectra.watching.unseen import Unseen as Unseen
from .spectra.read import Batches as Batches
from .spectra.read import read_arrays as read_arrays
from .spectra.read import read_images as read_images
from .spectra.read import read_text as read_text
from .spectra.layer import LayerSpectra as LayerSpectra
from .spectra.result import Profile as Profile
from .spectra.weights_only import LayerWeights as LayerWeights
from .spectra.weights_only import WeightSpectra as WeightSpectra
from .spectra.weights_only import weight_spectra as weight_spectra

# ---- training on real data
from .training.train import ImageScores as ImageScores
from .training.train import Trained as Trained
from .training.train import TranslationScores as TranslationScores
from .training.train import train as train
from .training.train import trained as trained
from .training.epochs import EpochRecipe as EpochRecipe
from .training.feed import normalised as normalised
from .training.history import Epoch as Epoch
from .training.history import Training as Training
from .training.images import ImageErrors as ImageErrors
from .training.images import Photographs as Photographs
from .training.images import judge_images as judge_images
from .training.images import photographs as photographs
from .training.images import train_on_images as train_on_images
from .training.sentences import Sentences as Sentences
from .training.sentences import TextScores as TextScores
from .training.sentences import score_translations as score_translations
from .training.sentences import sentences as sentences
from .training.sentences import train_on_sentences as train_on_sentences
from .data.registry import FetchError as FetchError
from .data.text import sample_text as sample_text
from .data.weights import model_weights as model_weights

# ---- the reproduction
from .experiments.claims import Claim as Claim
from .experiments.claims import Verdict as Verdict
from .reproduction import Agreement as Agreement
from .reproduction import Reproduction as Reproduction
from .reproduction import reproduce as reproduce

__version__: str
