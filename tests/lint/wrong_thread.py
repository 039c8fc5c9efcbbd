#!/usr/bin/env python3
"""Calls across threads do not compile: plants one of each kind.

    wrong_thread.py CLANG ROOT
"""
import subprocess
import sys

INCLUDES = ('#include "node/route/dispatch.h"\n'
            '#include "node/view/expectations.h"\n')
LANE = "dispatch_next(d);"
CONTROL = "expectations_close(e, 0);"
REFUSED = "requires holding role"


def compiles(clang, root, role, call):
    source = (INCLUDES + "void f(struct dispatch *d, struct expectations *e);\n"
              "void f(struct dispatch *d, struct expectations *e)\n"
              f"{{ (void)d; (void)e; {role}(); (void){call} }}\n")
    run = subprocess.run([clang, "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only",
                          "-Wthread-safety", "-Werror", "-I", root, "-xc", "-"],
                         input=source, capture_output=True, text=True, check=False)
    if run.returncode != 0 and REFUSED not in run.stderr:
        sys.exit(f"does not compile for another reason:\n{run.stderr}")
    return run.returncode == 0


def main():
    clang, root = sys.argv[1:]
    wanted = {("role_is_lane", LANE): True, ("role_is_control", CONTROL): True,
              ("role_is_lane", CONTROL): False, ("role_is_control", LANE): False}
    wrong = [f"{role}(); {call} compiles: {not want}"
             for (role, call), want in wanted.items()
             if compiles(clang, root, role, call) != want]
    print("\n".join(wrong) or f"{len(wanted)} calls are judged as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
