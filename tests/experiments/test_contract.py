"""What all experiments have: what is said where data could not be had."""

from attnrate.experiments.contract import Conclusion, Results, unfinished


def test_no_model_is_finished_because_of_data_only_if_there_is_none() -> None:
    assert unfinished(Results(), (), "images") == Conclusion(
        ("No model of this experiment is finished.",)
    )
    gone = Results(missing=("no client", "no disk"))
    assert unfinished(gone, (), "data").paragraphs == ("The data could not be had: no client",)
    assert gone.gaps == " 2 of 2 models are missing: no client"
    assert Results().gaps == ""
