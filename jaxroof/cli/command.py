"""A command whose options of the study have a heading of their own at the end of its help."""

import click

STUDY = "Options of --estimator published"


class StudyOption(click.Option):
    """An option that only the estimator of the study has."""


class Command(click.Command):
    """A command that lists the options of the study last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all other options, then those of the study."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], STUDY: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups[STUDY if isinstance(parameter, StudyOption) else "Options"].append(record)
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
