"""`omnizarr completion`: the shell completes commands, options and paths."""

from __future__ import annotations

import os
from pathlib import Path

import click

from omnizarr.cli.options import dry_run_option, json_option
from omnizarr.cli.terminal import examples, say, say_json

_VARIABLE = "_OMNIZARR_COMPLETE"  # by which the shell asks the command for completions


@click.command(
    epilog=examples(
        "omnizarr completion bash --install", 'eval "$(omnizarr completion zsh)"   # in ~/.zshrc'
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), required=False)
@click.option("--install", is_flag=True, help="Write it to where the shell finds it.")
@dry_run_option
@json_option
def completion(shell: str | None, install: bool, dry_run: bool, as_json: bool) -> None:
    """Print the shell's completion of commands, options and paths, or install it.

    The shell is that of the variable SHELL if none is given. --install writes one file of its own,
    and for zsh a line to ~/.zshrc; it takes effect in new shells.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in ("bash", "zsh", "fish"):
        raise click.UsageError("give one of bash, zsh and fish")
    script = _script(shell)
    if not install:
        if as_json:
            say_json({"shell": shell, "script": script})
        else:
            say(script)
        return
    path = _place(shell)
    line = _startup_line(shell, path)
    if not dry_run:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script + "\n", encoding="utf-8")
        if line is not None:
            _add_line(*line)
    changed = [str(path), *([] if line is None else [str(line[0])])]
    if as_json:
        say_json({"shell": shell, "files": changed, "dry_run": dry_run})
        return
    would = "would write" if dry_run else "wrote"
    say(f"{would} {' and '.join(changed)}; completion works in new shells")


def _script(shell: str) -> str:
    """Return the script that asks the command for completions."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - rarely needed

    root = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover - click knows the three
        raise click.UsageError(f"there is no completion for {shell}")
    return kind(root.command, {}, "omnizarr", _VARIABLE).source().strip()


def _place(shell: str) -> Path:
    """Return the file that the shell reads when it completes the command."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    if shell == "bash":  # read by the package bash-completion
        return data / "bash-completion" / "completions" / "omnizarr"
    if shell == "zsh":
        return data / "omnizarr" / "completion.zsh"
    return config / "fish" / "completions" / "omnizarr.fish"


def _startup_line(shell: str, path: Path) -> tuple[Path, str] | None:
    """Return the line that a startup file needs, and that file; None where none is needed."""
    if shell != "zsh":
        return None
    folder = Path(os.environ.get("ZDOTDIR") or Path.home())
    return folder / ".zshrc", f'[ -r "{path}" ] && source "{path}"  # completion of omnizarr'


def _add_line(path: Path, line: str) -> None:
    """Append a line to a file that does not have it."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if line not in text.splitlines():
        with path.open("a", encoding="utf-8") as file:
            file.write(("" if not text or text.endswith("\n") else "\n") + line + "\n")
