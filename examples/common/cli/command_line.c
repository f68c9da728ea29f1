// SPDX-License-Identifier: MIT
#include "command_line.h"
#include "files/output_file.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void option_table_add(option_table *table, const option_spec *rows) {
    for (; rows->kind != OPTION_END; rows++) {
        assert(table->count < OPTION_ROOM);
        table->rows[table->count++] = *rows;
    }
}

void option_table_add_group(option_table *table, const char *heading, const option_spec *rows) {
    const int first = table->count;
    option_table_add(table, rows);
    table->rows[first].group = heading;
}

const char *option_text(const option_spec *option) {
    if (option->kind == OPTION_FLAG) return *(const bool *)option->value ? "yes" : "no";
    if (option->kind == OPTION_TEXT) return *(const char *const *)option->value;
    return option->kind == OPTION_CHOICE ? option->choices[*(const int *)option->value] : NULL;
}

bool option_differs(const option_spec *a, const option_spec *b) {
    if (a->kind == OPTION_INT) return *(const int64_t *)a->value != *(const int64_t *)b->value;
    if (a->kind == OPTION_REAL) return *(const double *)a->value != *(const double *)b->value;
    const char *const x = option_text(a), *const y = option_text(b);
    return x && y ? strcmp(x, y) != 0 : x != y;
}

// Writes the range. "auto" stands for the minimum of an automatic number, which is left out. 9e15, to which a double no
// longer counts exactly, and more are no bounds.
static void describe_range(const option_spec *option, char *text, size_t room) {
    const bool whole = option->kind == OPTION_INT;
    const double least = option->minimum + (option->automatic && whole), most = option->maximum;
    const bool below = fabs(least) < 9e15 && (whole || !option->automatic), above = fabs(most) < 9e15;
    const char *const word = option->automatic ? "auto or " : "";
    if (below && above)
        snprintf(text, room, "%s%.15g..%.15g", word, least, most);
    else if (below || above)
        snprintf(text, room, "%sat %s %.15g", word, below ? "least" : "most", below ? least : most);
    else
        snprintf(text, room, "%s", option->automatic ? "auto or a number" : "any");
}

static bool is_number(const option_spec *option) {
    return option->kind == OPTION_INT || option->kind == OPTION_REAL;
}

static bool set_number(const option_spec *option, const char *text, fault *why) {
    const bool whole = option->kind == OPTION_INT;
    char *end, range[80], least[32];
    snprintf(least, sizeof least, "%.17g", option->minimum);
    if (option->automatic && strcmp(text, "auto") == 0) text = least; // which stands for it
    errno = 0;
    const int64_t integer = whole ? strtoll(text, &end, 10) : 0;
    const double value = whole ? (double)integer : strtod(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !isfinite(value))
        return fail(why, "--%s needs a %s number, not '%s'", option->name, whole ? "whole" : "finite", text);
    if ((whole && errno == ERANGE) || !(value >= option->minimum && value <= option->maximum)) {
        describe_range(option, range, sizeof range);
        return fail(why, "--%s must be %s, not '%s'", option->name, range, text);
    }
    if (whole)
        *(int64_t *)option->value = integer;
    else
        *(double *)option->value = value;
    return true;
}

static void list_choices(const option_spec *option, const char *between, char *text, size_t room) {
    size_t used = 0;
    for (int i = 0; option->choices[i] && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", i ? between : "", option->choices[i]);
}

bool option_set(const option_spec *option, const char *text, fault *why) {
    if (is_number(option)) return set_number(option, text, why);
    if (option->kind == OPTION_TEXT) {
        *(const char **)option->value = text;
        return true;
    }
    for (int i = 0; option->choices[i]; i++)
        if (strcmp(option->choices[i], text) == 0) {
            *(int *)option->value = i;
            return true;
        }
    char list[512];
    list_choices(option, ", ", list, sizeof list);
    return fail(why, "--%s must be one of %s, not '%s'", option->name, list, text);
}

static const char *option_prefix(const option_spec *option) {
    return option->kind == OPTION_FLAG && *(const bool *)option->value ? "no-" : "";
}

static int option_usage(const option_spec *option, char *text, size_t room) {
    static const char *const placeholder[] = {"", "", " N", " X", " TEXT", " NAME"}; // by kind
    char letter[8] = "    ";
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    return snprintf(text, room, "%s--%s%s%s", letter, option_prefix(option), option->name,
                    placeholder[option->kind]);
}

// The help with the values and the default.
static void option_help(const option_spec *option, char *text, size_t room) {
    char values[512] = "", number[32];
    const char *initial = option->kind == OPTION_FLAG ? NULL : option_text(option);
    if (is_number(option)) {
        const bool whole = option->kind == OPTION_INT;
        const double value = whole ? (double)*(const int64_t *)option->value : *(const double *)option->value;
        describe_range(option, values, sizeof values);
        snprintf(number, sizeof number, whole ? "%.0f" : "%.15g", value);
        initial = option->automatic && value == option->minimum ? "auto" : number;
    } else if (option->kind == OPTION_CHOICE) {
        list_choices(option, ", ", values, sizeof values);
    }
    if (initial)
        snprintf(text, room, "%s (%s%sdefault %s)", option->help, values, *values ? "; " : "", initial);
    else
        snprintf(text, room, "%s", option->help);
}

// ---- help

enum { COLUMNS = 80, WIDEST_NAME = 28 };

// Prints the words of a text from column `at` on, each line from column `indent`. Two line ends in a row stay.
static void print_wrapped(const char *text, int at, int indent) {
    bool first = true;
    while (*text) {
        const bool paragraph = strncmp(text, "\n\n", 2) == 0;
        text += strspn(text, " \n");
        const int length = (int)strcspn(text, " \n");
        if (length == 0) break;
        if (paragraph || (!first && at + 1 + length > COLUMNS)) {
            printf("%s\n%*s", paragraph ? "\n" : "", indent, "");
            at = indent;
        } else if (!first) {
            putchar(' ');
            at++;
        }
        printf("%.*s", length, text);
        at += length;
        text += length;
        first = false;
    }
    putchar('\n');
}

static void print_option(const char *usage, const char *help, int width) {
    const int indent = width + 4;
    if (printf("  %-*s  ", width, usage) > indent) printf("\n%*s", indent, "");
    print_wrapped(help, indent, indent);
}

// The options are in the order of the table, and those of a group next to each other.
static void print_help(const command_spec *command, bool all) {
    printf("usage: %s %s\n\n", command->name, command->arguments);
    print_wrapped(command->summary, 0, 0);
    if (command->groups == 0) printf("\noptions:\n");
    char usage[256], text[2048];
    int width = (int)strlen("-h, --help"), groups = 0, hidden = 0;
    for (const option_spec *o = command->options; o->kind != OPTION_END; o++) {
        const int length = option_usage(o, usage, sizeof usage);
        if (length > width && length <= WIDEST_NAME) width = length;
    }
    for (const option_spec *o = command->options; o->kind != OPTION_END; o++) {
        groups += o->group != NULL;
        if (!all && groups > command->groups) {
            hidden++;
            continue;
        }
        if (o->group) printf("\n%s:\n", o->group);
        option_usage(o, usage, sizeof usage);
        option_help(o, text, sizeof text);
        print_option(usage, text, width);
    }
    if (command->groups > 0) putchar('\n');
    print_option("-h, --help", "print this and exit", width);
    if (hidden > 0) {
        snprintf(text, sizeof text, "print the other %d options too", hidden);
        print_option("    --help all", text, width);
    }
    if (command->examples) printf("\nexamples:\n%s", command->examples);
}

// ---- man page and completions

// "train" of "dsplat train".
static const char *short_name(const command_spec *command) {
    const char *space = strrchr(command->name, ' ');
    return space ? space + 1 : command->name;
}

// Prints troff with the macros of man(7): `before` as it is, then the text. A line of text that begins with a dot or an
// apostrophe would be a request; \& is nothing.
static void print_troff(const char *before, const char *text) {
    fputs(before, stdout);
    bool begins = *before != '\0' && before[strlen(before) - 1] == '\n';
    for (; *text; begins = *text++ == '\n') {
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        if (*text == '-' || *text == '\\') putchar('\\');
        putchar(*text == '\\' ? 'e' : *text);
    }
}

static void command_man(const command_spec *command) {
    printf(".SS \"%s", short_name(command));
    print_troff(" ", command->arguments);
    print_troff("\"\n", command->summary);
    for (const option_spec *o = command->options; o->kind != OPTION_END; o++) {
        char text[2048];
        if (o->group) print_troff("\n.PP\n", o->group);
        option_usage(o, text, sizeof text);
        print_troff(o->group ? ":\n.TP\n.B " : "\n.TP\n.B ", text + strspn(text, " "));
        option_help(o, text, sizeof text);
        print_troff("\n", text);
    }
    putchar('\n');
}

static void command_bash(const command_spec *command) {
    char choices[512];
    for (const option_spec *o = command->options; o->kind != OPTION_END; o++)
        if (o->kind == OPTION_CHOICE) {
            list_choices(o, " ", choices, sizeof choices);
            printf("    %s:--%s) options=\"%s\" ;;\n", short_name(command), o->name, choices);
        } else if (o->kind == OPTION_TEXT) { // mostly a file
            printf("    %s:--%s", short_name(command), o->name);
            if (o->letter) printf(" | %s:-%c", short_name(command), o->letter);
            printf(") ;;\n");
        }
    printf("    %s:*) [[ $word == -* ]] && options=\"", short_name(command));
    for (const option_spec *o = command->options; o->kind != OPTION_END; o++)
        printf("--%s%s ", option_prefix(o), o->name);
    printf("--help\" ;;\n");
}

// In place of --help: prints all options. NULL: --help prints the help.
static void (*described)(const command_spec *command);

static void describe_commands(const program_spec *program, void (*form)(const command_spec *command)) {
    described = form;
    for (const program_command *c = program->commands; c->name; c++)
        c->run(2, (char *[]){(char *)(uintptr_t)c->name, "--help"});
    described = NULL;
}

static void print_man_page(const program_spec *p) {
    printf(".TH \"%s\" 1 \"\" \"%s %s\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.I COMMAND\n[arguments]\n"
           ".SH COMMANDS\n",
           p->name, p->name, p->version, p->name, p->summary, p->name);
    describe_commands(p, command_man);
    print_troff(".SH EXAMPLES\n.nf\n", p->examples);
    printf(".fi\n");
}

static void print_completions(const program_spec *p) {
    printf("# Completes the commands, options and files of %s in bash.\n_%s() {\n    local word=$2 options=\n"
           "    if ((COMP_CWORD == 1)); then\n        COMPREPLY=($(compgen -W \"",
           p->name, p->name);
    for (const program_command *c = p->commands; c->name; c++) printf("%s ", c->name);
    printf("help --help --version\" -- \"$word\"))\n        return\n    fi\n"
           "    case ${COMP_WORDS[1]}:$3 in\n");
    describe_commands(p, command_bash);
    printf("    esac\n    if [[ -n $options ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
           "    else COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\ncomplete -o filenames -F _%s %s\n",
           p->name, p->name);
}

// ---- a command line

// By its letter, or else by its name of that length. NULL: there is none.
static const option_spec *find(const option_spec *options, char letter, const char *name, size_t length) {
    for (const option_spec *o = options; o->kind != OPTION_END; o++)
        if (letter ? o->letter == letter : strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

// Parses the option at argv[*at] and moves *at to its last word.
static bool parse_option(const command_spec *command, int argc, char **argv, int *at, fault *why) {
    const char *const word = argv[*at], *value = NULL;
    const option_spec *option = NULL;
    bool on = true;
    if (word[1] == '-') {
        const size_t length = strcspn(word, "=");
        if (word[length] == '=') value = word + length + 1;
        option = find(command->options, 0, word + 2, length - 2);
        if (!option && !value && strncmp(word, "--no-", 5) == 0) {
            option = find(command->options, 0, word + 5, length - 5);
            if (option && option->kind != OPTION_FLAG) option = NULL;
            on = false;
        }
    } else if (word[2] == '\0') {
        option = find(command->options, word[1], NULL, 0);
    }
    if (!option) return fail(why, "unknown option '%s'", word);
    if (option->kind == OPTION_FLAG) {
        if (value) return fail(why, "--%s takes no value", option->name);
        *(bool *)option->value = on;
        return true;
    }
    if (!value && *at + 1 < argc) {
        value = argv[*at + 1];
        // Numbers, and texts of numbers, may begin with a dash. Another text that begins with one is more likely the
        // next option; "--name=-text" passes such a text.
        const bool dash = value[0] == '-' && value[1] != '\0';
        const bool may_be_one = is_number(option) || isdigit((unsigned char)value[1]) || value[1] == '.';
        if (dash && (!may_be_one || value[1] == '-')) value = NULL;
        if (value) ++*at;
    }
    if (!value) return fail(why, "--%s needs a value", option->name);
    return option_set(option, value, why);
}

bool read_command_line(const command_spec *command, int argc, char **argv, const char **positional,
                       int *exit_code) {
    const int most = command->most_positional > 0 ? command->most_positional : command->positional;
    bool options_ended = false, right = true;
    int count = 0;
    fault why;
    *exit_code = EXIT_SUCCESS;
    for (int i = 1; right && i < argc; i++) {
        const char *word = argv[i];
        if (options_ended || word[0] != '-' || word[1] == '\0') {
            if (count == most)
                right = fail(&why, "unexpected argument '%s'", word);
            else
                positional[count++] = word;
        } else if (strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            if (described)
                described(command);
            else
                print_help(command, i + 1 < argc && strcmp(argv[i + 1], "all") == 0);
            return false;
        } else {
            right = parse_option(command, argc, argv, &i, &why);
        }
    }
    if (right && count < command->positional)
        right = fail(&why, "an argument is missing: %s %s", command->name, command->arguments);
    if (!right) *exit_code = report_misuse(command, &why);
    return right;
}

int report_failure(const char *program, const fault *why) {
    fprintf(stderr, "%s: %s\n", program, why->text);
    return EXIT_FAILURE;
}

int report_misuse(const command_spec *command, const fault *why) {
    fprintf(stderr, "%s: %s; see '%s --help'\n", command->name, why->text, command->name);
    return EXIT_USAGE;
}

bool parse_color(const char *text, float color[3], fault *why) {
    const char *rest = text;
    for (int channel = 0; channel < 3; channel++) {
        char *end;
        double value = strtod(rest, &end);
        char expected = channel < 2 ? ',' : '\0';
        if (end == rest || *end != expected || !(value >= 0 && value <= 1))
            return fail(why, "'%s' is not a colour; write R,G,B with each from 0 to 1", text);
        color[channel] = (float)value;
        rest = end + 1;
    }
    return true;
}

bool output_is_possible(const char *path, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    output_file_remove_stale(&file);
    output_file_discard(&file);
    return true;
}

bool json_is_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

bool json_is_possible(const char *path, fault *why) {
    return !path || json_is_stdout(path) || output_is_possible(path, why);
}

// ---- a program

#ifdef DISTWAR_SIMT
static const char backend[] = "simt";
#else
static const char backend[] = "cuda";
#endif

static void print_usage(const program_spec *program, FILE *stream) {
    fprintf(stream, "usage: %s COMMAND [arguments]\n\nCommands:\n", program->name);
    for (const program_command *c = program->commands; c->name; c++)
        fprintf(stream, "  %-8s %s\n", c->name, c->summary);
    fprintf(stream,
            "\n'%s COMMAND --help' says more; '%s --version' names version and backend.\n\nExamples:\n%s",
            program->name, program->name, program->examples);
}

static int run_command(const program_spec *program, int argc, char **argv) {
    for (const program_command *c = program->commands; c->name; c++)
        if (strcmp(argv[0], c->name) == 0) return c->run(argc, argv);
    fprintf(stderr, "%s: there is no command '%s'\n\n", program->name, argv[0]);
    print_usage(program, stderr);
    return EXIT_USAGE;
}

static int run(const program_spec *program, int argc, char **argv) {
    const char *const word = argc > 1 ? argv[1] : "";
    const bool help = strcmp(word, "help") == 0, describes = argc == 3 && strcmp(word, "--describe") == 0;
    if (help && argc == 3) return run_command(program, 2, (char *[]){argv[2], "--help"});
    if (argc < 2 || help || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        print_usage(program, argc < 2 ? stderr : stdout);
    else if (strcmp(word, "--version") == 0)
        printf("%s %s (%s)\n", program->name, program->version, backend);
    else if (describes && strcmp(argv[2], "man") == 0)
        print_man_page(program);
    else if (describes && strcmp(argv[2], "bash") == 0)
        print_completions(program);
    else
        return run_command(program, argc - 1, argv + 1);
    return argc < 2 ? EXIT_USAGE : EXIT_SUCCESS;
}

// Opens a file to which writing fails in place of each standard stream that is closed. Else the next file to be opened
// would get the stream's number, and messages would go into it.
static void keep_standard_streams(void) {
    int file = open("/dev/null", O_RDONLY);
    while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDONLY);
    if (file >= 0) close(file);
}

int program_run(const program_spec *program, int argc, char **argv) {
    keep_standard_streams();
    int code = run(program, argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "%s: cannot write to stdout: %s\n", program->name, strerror(errno));
    return code == EXIT_SUCCESS ? EXIT_FAILURE : code;
}
