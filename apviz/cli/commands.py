"""All commands except `dashboard`, whose modules take seconds to import."""

from __future__ import annotations

import typer

from apviz.cli.advising import EXAMPLES as ADVISE_EXAMPLES
from apviz.cli.advising import advise
from apviz.cli.comparing import EXAMPLES as COMPARE_EXAMPLES
from apviz.cli.comparing import compare
from apviz.cli.data_sets import sets
from apviz.cli.experimenting import EXAMPLES as EXPERIMENT_EXAMPLES
from apviz.cli.experimenting import experiment
from apviz.cli.fitting import EXAMPLES as FIT_EXAMPLES
from apviz.cli.fitting import fit
from apviz.cli.predicting import EXAMPLES as PREDICT_EXAMPLES
from apviz.cli.predicting import predict
from apviz.cli.showing import DOCTOR_EXAMPLES, REPORT_EXAMPLES, SHOW_EXAMPLES, doctor, report, show

app = typer.Typer()
app.add_typer(sets, name="datasets")
app.command(epilog=COMPARE_EXAMPLES)(compare)
app.command(epilog=ADVISE_EXAMPLES)(advise)
app.command(epilog=FIT_EXAMPLES)(fit)
app.command(epilog=PREDICT_EXAMPLES)(predict)
app.command(epilog=EXPERIMENT_EXAMPLES)(experiment)
app.command(epilog=REPORT_EXAMPLES)(report)
app.command(epilog=SHOW_EXAMPLES)(show)
app.command(epilog=DOCTOR_EXAMPLES)(doctor)
