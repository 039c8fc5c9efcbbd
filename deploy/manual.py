#!/usr/bin/env python3
"""Writes manual pages and shell completions into a folder, all from what the
program says of itself: `--help` of each command, and `check --schema`.

    deploy/manual.py build/node/kvasir FOLDER

kvasir.1, kvasir.yaml.5, kvasir.bash, _kvasir (zsh), kvasir.fish.
"""
import json
import pathlib
import re
import subprocess
import sys

FILES = {"config", "files", "template", "token-file", "ca", "data", "trace", "tokens", "cdf"}


def say(program, *args):
    return subprocess.run([program, *args], check=True, text=True, capture_output=True).stdout


class Flag:
    def __init__(self, name, meaning, words=(), file=False):
        self.name, self.meaning, self.words = name, meaning, list(words)
        self.file = file or name in FILES


class Program:
    """What the program says of itself."""

    def __init__(self, path):
        self.top = say(path, "--help")
        self.version = say(path, "--version").split()[1]
        schema = json.loads(say(path, "check", "--schema"))
        self.schema, self.pool = schema["properties"], schema["definitions"]["pool"]
        self.commands = dict(re.findall(r"(?m)^  ([\w-]+) +(.+)$", self.top))
        self.help = {name: say(path, name, "--help") for name in self.commands}
        self.keys = dict(self.rows(self.schema))

    def rows(self, properties, before=""):
        """(NAME, ROW) of each key, sections flattened; not the workers'."""
        for name, row in properties.items():
            if row.get("type") == "object":
                yield from self.rows(row["properties"], before + name + ".")
            elif name != "workers":
                yield before + name, row

    @property
    def worker_keys(self):
        return self.schema["workers"]["items"]["anyOf"][1]["properties"]

    def flags(self, command):
        """Those of a command's own manual, then the keys of the configuration."""
        found = {}
        for name, meaning in re.findall(
                r"(?m)^  (?:-\w, )?--([\w.-]+)(?: \S+)*?(?:  +(\S.*)|)$", self.help[command]):
            if name not in self.keys or command not in ("serve", "check"):
                found[name] = Flag(name, meaning)
        if "--policy" in self.help[command] and command in ("serve", "check"):
            found["policy"] = Flag("policy", "", self.keys["policy.name"]["enum"])
        if command in ("serve", "check"):
            for name in "config", "worker", "mesh", "join", "data":
                found.setdefault(name, Flag(name, ""))
            for name, row in self.keys.items():
                words = [w if isinstance(w, str) else json.dumps(w) for w in row.get("enum", ())]
                found[name] = Flag(name, first_sentence(row["description"]), words,
                                   row.get("format") == "path")
        return list(found.values())


def first_sentence(text):
    return re.split(r"(?<=[^.])[.:;] ", text)[0].rstrip(".")


# Manual pages

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def prose(text):
    """Long words may be parted before what they have in brackets."""
    return re.sub(r"\S{40,}", lambda word: word[0].replace("[", "\\:["), roff(text))


def example(text):
    return f".nf\n{roff(text.rstrip())}\n.fi\n"


def page_of_commands(program):
    out = [f'.TH KVASIR 1 "" "kvasir {program.version}" "User Commands"\n.SH NAME\n'
           "kvasir \\- routes LLM requests to the engine that holds their prefix\n"
           ".SH SYNOPSIS\n.B kvasir\n.I COMMAND\n.RI [ OPTIONS ]\n.SH DESCRIPTION\n",
           example(program.top)]
    for name in program.commands:
        out += [f".SH {name.upper()}\n", example(program.help[name])]
    out.append(".SH SEE ALSO\n.BR kvasir.yaml (5)\n")
    return "".join(out)


def entry(name, row):
    default = row.get("default")
    shown = default if isinstance(default, str) else json.dumps(default)
    return (f".TP\n.B {roff(name)}\n{prose(row['description'])}\n"
            + (f"Default: {roff(shown)}.\n" if default is not None else ""))


def page_of_keys(program):
    out = [f'.TH KVASIR.YAML 5 "" "kvasir {program.version}" "File Formats"\n.SH NAME\n'
           "kvasir.yaml \\- configuration of a Kvasir node\n.SH DESCRIPTION\n"
           ".ad l\n.nh\n"  # names of keys are long words: nothing is stretched or parted
           "A YAML file that\n.B kvasir serve \\-c\nreads. Each key is an option, too\n"
           "(\\-\\-limits.body_bytes_max), and a variable\n(KVASIR_LIMITS_BODY_BYTES_MAX). Options "
           "override variables, and variables override the file.\n.SH TOP LEVEL\n"]
    sections = []
    for name, row in program.schema.items():
        if row.get("type") == "object":
            sections.append((name, row))
        elif name != "workers":
            out.append(entry(name, row))
    for name, row in sections:
        out.append(f".SH {name.upper()}\n{roff(row['description'])}.\n")
        out += [entry(f"{name}.{key}", each) for key, each in row["properties"].items()]
    out.append(f".SH SCALE.POOLS\n{prose(program.pool['description'])}.\n")
    out += [entry(key, row) for key, row in program.pool["properties"].items()]
    out.append(f".SH WORKERS\n{roff(program.schema['workers']['description'])}\n")
    out += [entry(key, row) for key, row in program.worker_keys.items()]
    out.append(".SH SEE ALSO\n.BR kvasir (1)\n")
    return "".join(out)


# Completions

def bash(program):
    out = ["# bash completion of kvasir\n_kvasir() {\n"
           "    local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
           "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
           f"        words='{' '.join(program.commands)} --help --version'\n    else\n"
           "        case ${COMP_WORDS[1]}:$before in\n"]
    for command in program.commands:
        for flag in program.flags(command):
            if flag.words:
                out.append(f"        {command}:--{flag.name}) words='{' '.join(flag.words)}' ;;\n")
    files = sorted({f"--{flag.name}" for command in program.commands
                    for flag in program.flags(command) if flag.file} | {"-c"})
    out.append(f"        {'|'.join('*:' + name for name in files)})\n"
               "            COMPREPLY=($(compgen -f -- \"$now\"))\n            return ;;\n")
    for command in program.commands:
        names = " ".join("--" + flag.name for flag in program.flags(command))
        out.append(f"        {command}:*) words='{names}' ;;\n")
    out.append("        esac\n    fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"$now\"))\n}\n"
               "complete -F _kvasir kvasir\n")
    return "".join(out)


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(program):
    def described(flag):
        text = re.sub(r"([\[\]:])", r"\\\1", flag.meaning)
        value = (f":{flag.name}:({' '.join(flag.words)})" if flag.words
                 else f":{flag.name}:_files" if flag.file else "")
        return quote(f"*--{flag.name}[{text}]{value}")

    out = ["#compdef kvasir\n_kvasir() {\n    if (( CURRENT == 2 )); then\n        local -a commands\n"
           "        commands=(\n"]
    out += [f"            {quote(name + ':' + text)}\n" for name, text in program.commands.items()]
    out.append("        )\n        _describe command commands\n        return\n    fi\n"
               "    case ${words[2]} in\n")
    for command in program.commands:
        rows = " \\\n            ".join(described(flag) for flag in program.flags(command))
        out.append(f"    {command})\n        _arguments \\\n            {rows} ;;\n")
    out.append("    esac\n}\n_kvasir \"$@\"\n")
    return "".join(out)


def fish(program):
    out = ["# fish completion of kvasir\ncomplete -c kvasir -f\n"]
    for name, text in program.commands.items():
        out.append(f"complete -c kvasir -n __fish_use_subcommand -a {name} -d {quote(text)}\n")
        for flag in program.flags(name):
            value = (f" -x -a {quote(' '.join(flag.words))}" if flag.words
                     else " -r -F" if flag.file else "")
            out.append(f"complete -c kvasir -n '__fish_seen_subcommand_from {name}' "
                       f"-l {flag.name} -d {quote(flag.meaning)}{value}\n")
    return "".join(out)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: deploy/manual.py PROGRAM FOLDER")
    program, folder = Program(sys.argv[1]), pathlib.Path(sys.argv[2])
    for name, write in {"kvasir.1": page_of_commands, "kvasir.yaml.5": page_of_keys,
                        "kvasir.bash": bash, "_kvasir": zsh, "kvasir.fish": fish}.items():
        (folder / name).write_text(write(program))


if __name__ == "__main__":
    main()
