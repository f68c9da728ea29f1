// SPDX-License-Identifier: MIT
#include "options.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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
    switch (option->kind) {
    case OPTION_FLAG:
        return *(const bool *)option->value ? "yes" : "no";
    case OPTION_TEXT:
        return *(const char *const *)option->value;
    case OPTION_CHOICE:
        return option->choices[*(const int *)option->value];
    default:
        return NULL;
    }
}

static const option_spec *find_long(const option_spec *options, const char *name, size_t length) {
    for (const option_spec *o = options; o->kind != OPTION_END; o++)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) return o;
    return NULL;
}

static const option_spec *find_letter(const option_spec *options, char letter) {
    for (const option_spec *o = options; o->kind != OPTION_END; o++)
        if (o->letter == letter) return o;
    return NULL;
}

// A bound that a double cannot count exactly to means "none".
static bool is_bound(double value) {
    return fabs(value) < 9e15;
}

// The range without the minimum of an automatic number, which the word "auto" stands for.
static void describe_range(const option_spec *option, char *text, size_t room) {
    const double least =
        option->automatic && option->kind == OPTION_INT ? option->minimum + 1 : option->minimum;
    const bool below = is_bound(least) && !(option->automatic && option->kind == OPTION_REAL);
    const bool above = is_bound(option->maximum);
    const char *const word = option->automatic ? "auto or " : "";
    if (below && above)
        snprintf(text, room, "%s%.15g..%.15g", word, least, option->maximum);
    else if (below)
        snprintf(text, room, "%sat least %.15g", word, least);
    else if (above)
        snprintf(text, room, "%sat most %.15g", word, option->maximum);
    else
        snprintf(text, room, "%s", option->automatic ? "auto or a number" : "any");
}

static bool out_of_range(const option_spec *option, const char *text, fault *why) {
    char range[80];
    describe_range(option, range, sizeof range);
    return fail(why, "--%s must be %s, not '%s'", option->name, range, text);
}

static bool set_int(const option_spec *option, const char *text, fault *why) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]))
        return fail(why, "--%s needs a whole number, not '%s'", option->name, text);
    if (errno == ERANGE || !((double)value >= option->minimum && (double)value <= option->maximum))
        return out_of_range(option, text, why);
    *(int64_t *)option->value = value;
    return true;
}

static bool set_real(const option_spec *option, const char *text, fault *why) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !isfinite(value))
        return fail(why, "--%s needs a finite number, not '%s'", option->name, text);
    if (!(value >= option->minimum && value <= option->maximum)) return out_of_range(option, text, why);
    *(double *)option->value = value;
    return true;
}

static void list_choices(const option_spec *option, char *text, size_t room) {
    text[0] = '\0';
    for (int i = 0; option->choices[i]; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, room - used, "%s%s", i ? ", " : "", option->choices[i]);
    }
}

static bool set_choice(const option_spec *option, const char *text, fault *why) {
    for (int i = 0; option->choices[i]; i++)
        if (strcmp(option->choices[i], text) == 0) {
            *(int *)option->value = i;
            return true;
        }
    char list[512];
    list_choices(option, list, sizeof list);
    return fail(why, "--%s must be one of %s, not '%s'", option->name, list, text);
}

static bool set_value(const option_spec *option, const char *text, fault *why) {
    if (option->automatic && strcmp(text, "auto") == 0) {
        if (option->kind == OPTION_INT)
            *(int64_t *)option->value = (int64_t)option->minimum;
        else
            *(double *)option->value = option->minimum;
        return true;
    }
    switch (option->kind) {
    case OPTION_INT:
        return set_int(option, text, why);
    case OPTION_REAL:
        return set_real(option, text, why);
    case OPTION_CHOICE:
        return set_choice(option, text, why);
    default:
        *(const char **)option->value = text;
        return true;
    }
}

const char *option_prefix(const option_spec *option) {
    return option->kind == OPTION_FLAG && *(const bool *)option->value ? "no-" : "";
}

int option_usage(const option_spec *option, char *text, size_t room) {
    static const char *const placeholder[] = {[OPTION_FLAG] = "",
                                              [OPTION_INT] = " N",
                                              [OPTION_REAL] = " X",
                                              [OPTION_TEXT] = " TEXT",
                                              [OPTION_CHOICE] = " NAME"};
    char letter[8] = "    ";
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    return snprintf(text, room, "%s--%s%s%s", letter, option_prefix(option), option->name,
                    placeholder[option->kind]);
}

void option_note(const option_spec *option, char *text, size_t room) {
    char range[80], list[512], number[32] = "";
    text[0] = '\0';
    describe_range(option, range, sizeof range);
    if (option->kind == OPTION_INT)
        snprintf(number, sizeof number, "%" PRId64, *(const int64_t *)option->value);
    if (option->kind == OPTION_REAL) snprintf(number, sizeof number, "%.15g", *(const double *)option->value);
    switch (option->kind) {
    case OPTION_INT:
    case OPTION_REAL:
        snprintf(text, room, " (%s; default %s)", range,
                 option->automatic && strtod(number, NULL) == option->minimum ? "auto" : number);
        break;
    case OPTION_TEXT:
        if (*(const char *const *)option->value)
            snprintf(text, room, " (default %s)", *(const char *const *)option->value);
        break;
    case OPTION_CHOICE:
        list_choices(option, list, sizeof list);
        snprintf(text, room, " (%s; default %s)", list, option->choices[*(const int *)option->value]);
        break;
    default:
        break;
    }
}

// ---- help

enum { USUAL_COLUMNS = 80, LEAST_COLUMNS = 40, MOST_COLUMNS = 120, WIDEST_NAME = 28 };

static int columns_of_terminal(void) {
    const char *const chosen = getenv("COLUMNS");
    struct winsize size;
    int columns = chosen ? atoi(chosen) : 0;
    if (columns <= 0 && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    if (columns <= 0) columns = USUAL_COLUMNS;
    return columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns > MOST_COLUMNS ? MOST_COLUMNS : columns;
}

// Prints the words of a text from column `at` on, each line from column `indent`. Two line ends in a row stay.
static void print_wrapped(const char *text, int at, int indent, int columns) {
    bool first = true;
    while (*text) {
        const bool paragraph = strncmp(text, "\n\n", 2) == 0;
        text += strspn(text, " \n");
        const int length = (int)strcspn(text, " \n");
        if (length == 0) break;
        if (paragraph || (!first && at + 1 + length > columns)) {
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

static void print_option(const char *usage, const char *help, int width, int columns) {
    const int indent = width + 4;
    int at = printf("  %-*s  ", width, usage);
    if (at > indent) {
        printf("\n%*s", indent, "");
        at = indent;
    }
    print_wrapped(help, at, indent, columns);
}

// The options are in the order of the table, and those of a group next to each other.
static void print_help(const command_spec *command, bool all) {
    const int columns = columns_of_terminal();
    printf("usage: %s %s\n\n", command->name, command->arguments);
    print_wrapped(command->summary, 0, 0, columns);
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
        const int length = snprintf(text, sizeof text, "%s", o->help);
        option_note(o, text + length, sizeof text - (size_t)length);
        print_option(usage, text, width, columns);
    }
    if (command->groups > 0) putchar('\n');
    print_option("-h, --help", "print this and exit", width, columns);
    if (hidden > 0) {
        snprintf(text, sizeof text, "print the other %d options too", hidden);
        print_option("    --help all", text, width, columns);
    }
    if (command->examples) printf("\nexamples:\n%s", command->examples);
}

void (*options_help)(const command_spec *command, bool all) = print_help;

// Parses the option at argv[*at] and moves *at to its last word.
static bool parse_option(const command_spec *command, int argc, char **argv, int *at, fault *why) {
    const char *word = argv[*at], *value = NULL;
    const option_spec *option = NULL;
    bool on = true;
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        option =
            find_long(command->options, word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2));
        value = equals ? equals + 1 : NULL;
        if (!option && strncmp(word, "--no-", 5) == 0) {
            option = find_long(command->options, word + 5, strlen(word + 5));
            if (option && option->kind != OPTION_FLAG) option = NULL;
            on = false;
        }
    } else if (word[2] == '\0') {
        option = find_letter(command->options, word[1]);
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
        const bool is_number = option->kind == OPTION_INT || option->kind == OPTION_REAL ||
                               isdigit((unsigned char)value[1]) || value[1] == '.';
        if (dash && (!is_number || value[1] == '-')) value = NULL;
        if (value) ++*at;
    }
    if (!value) return fail(why, "--%s needs a value", option->name);
    return set_value(option, value, why);
}

static bool parse(const command_spec *command, int argc, char **argv, const char **positional,
                  int *positional_count, bool *help, bool *all, fault *why) {
    const int most = command->most_positional > 0 ? command->most_positional : command->positional;
    bool options_ended = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (options_ended || word[0] != '-' || word[1] == '\0') {
            if (*positional_count == most) return fail(why, "unexpected argument '%s'", word);
            positional[(*positional_count)++] = word;
        } else if (strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            *help = true;
            *all = i + 1 < argc && strcmp(argv[i + 1], "all") == 0;
            return true;
        } else if (!parse_option(command, argc, argv, &i, why)) {
            return false;
        }
    }
    if (*positional_count < command->positional)
        return fail(why, "an argument is missing: %s %s", command->name, command->arguments);
    return true;
}

options_result options_parse(const command_spec *command, int argc, char **argv, const char **positional,
                             int *positional_count, fault *why) {
    bool help = false, all = false;
    *positional_count = 0;
    if (!parse(command, argc, argv, positional, positional_count, &help, &all, why)) {
        fail(why, "%s: %s; see '%s --help'", command->name, why->text, command->name);
        return OPTIONS_USAGE_ERROR;
    }
    if (!help) return OPTIONS_OK;
    options_help(command, all);
    return OPTIONS_HELP;
}
