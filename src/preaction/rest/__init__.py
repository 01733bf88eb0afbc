"""The client of an authority, and the ports that a gate asks. httpx is not imported before a client is built."""

from preaction.rest.felspar import Felspar
from preaction.rest.ports import felspar_job_describer, felspar_output_check_verifier, felspar_verifier

__all__ = ["Felspar", "felspar_job_describer", "felspar_output_check_verifier", "felspar_verifier"]
