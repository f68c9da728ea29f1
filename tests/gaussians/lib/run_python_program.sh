#!/bin/sh
# run_python_program.sh MODULE PROGRAM ARGUMENTS...: runs the program with a python3 that has the module. Exit status 77:
# there is none here, and why.
needs=$1
shift
for python in python3 /usr/bin/python3; do
    "$python" -c "import $needs" 2>/dev/null && exec "$python" -B "$@"
done
echo "skipped: no python3 with $needs here"
exit 77
