// SPDX-License-Identifier: MIT
#include "describe.h"
#include <stdio.h>
#include <string.h>

typedef struct description {
    const char *name;
    void (*begin)(const program_spec *program);
    void (*command)(const command_spec *command, bool all); // in place of --help; prints all options
    void (*end)(const program_spec *program);
} description;

// "train" of "dsplat train".
static const char *short_name(const command_spec *command) {
    const char *space = strrchr(command->name, ' ');
    return space ? space + 1 : command->name;
}

static void print_choices(const option_spec *option) {
    for (int i = 0; option->choices[i]; i++) printf("%s%s", i ? " " : "", option->choices[i]);
}

// ---- man: troff with the macros of man(7) ----

// A line that begins with a dot or an apostrophe would be a request; \& is nothing.
static void guard_line(const char *line) {
    if (*line == '.' || *line == '\'') fputs("\\&", stdout);
}

static void print_troff(const char *text) {
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') putchar('\\');
        putchar(*text == '\\' ? 'e' : *text);
        if (*text == '\n') guard_line(text + 1);
    }
}

static void print_paragraph(const char *text, const char *rest) {
    guard_line(text);
    print_troff(text);
    print_troff(rest);
    putchar('\n');
}

static void begin_man(const program_spec *program) {
    printf(".TH \"%s\" 1 \"\" \"%s %s\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.I COMMAND\n[arguments]\n"
           ".SH COMMANDS\n",
           program->name, program->name, program->version, program->name, program->summary, program->name);
}

static void command_man(const command_spec *command, bool all) {
    (void)all;
    printf(".SS \"%s ", short_name(command));
    print_troff(command->arguments);
    printf("\"\n");
    print_paragraph(command->summary, "");
    for (const option_spec *o = command->options; o->kind != OPTION_END; o++) {
        char text[1024];
        if (o->group) {
            printf(".PP\n");
            print_paragraph(o->group, ":");
        }
        option_usage(o, text, sizeof text);
        printf(".TP\n.B ");
        print_troff(text + strspn(text, " "));
        option_note(o, text, sizeof text);
        putchar('\n');
        print_paragraph(o->help, text);
    }
}

static void end_man(const program_spec *program) {
    printf(".SH EXAMPLES\n.nf\n");
    print_troff(program->examples);
    printf(".fi\n");
}

// ---- bash ----

static void begin_bash(const program_spec *program) {
    printf("# Completes the commands, options and files of %s in bash.\n_%s() {\n    local word=$2 options=\n"
           "    if ((COMP_CWORD == 1)); then\n        COMPREPLY=($(compgen -W \"",
           program->name, program->name);
    for (const program_command *c = program->commands; c->name; c++) printf("%s ", c->name);
    printf(
        "help --help --version\" -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]}:$3 in\n");
}

static void command_bash(const command_spec *command, bool all) {
    (void)all;
    for (const option_spec *o = command->options; o->kind != OPTION_END; o++)
        if (o->kind == OPTION_CHOICE) {
            printf("    %s:--%s) options=\"", short_name(command), o->name);
            print_choices(o);
            printf("\" ;;\n");
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

static void end_bash(const program_spec *program) {
    printf("    esac\n    if [[ -n $options ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
           "    else COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\ncomplete -o filenames -F _%s %s\n",
           program->name, program->name);
}

// ---- zsh ----

// Inside '...[...]': the quote ends and begins again, the bracket gets a backslash.
static void print_zsh(const char *text) {
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", *text == ']' || *text == '\\' ? "\\" : "", *text);
}

static void begin_zsh(const program_spec *program) {
    printf(
        "#compdef %s\n# Completes the commands, options and files of %s in zsh.\nlocal -a commands\ncommands=(\n",
        program->name, program->name);
    for (const program_command *c = program->commands; c->name; c++) {
        printf("  '%s:", c->name);
        print_zsh(c->summary);
        printf("'\n");
    }
    printf(")\nif (( CURRENT == 2 )); then\n  _describe command commands\n  return\nfi\nshift words\n"
           "(( CURRENT-- ))\ncase $words[1] in\n");
}

static void command_zsh(const command_spec *command, bool all) {
    (void)all;
    printf("%s) _arguments", short_name(command));
    for (const option_spec *o = command->options; o->kind != OPTION_END; o++) {
        const char *value = o->kind == OPTION_FLAG ? "" : "=";
        if (o->letter)
            printf(" \\\n  '(-%c --%s)'{-%c,--%s%s}'[", o->letter, o->name, o->letter, o->name, value);
        else
            printf(" \\\n  '--%s%s%s[", option_prefix(o), o->name, value);
        print_zsh(o->help);
        printf("]");
        if (o->kind == OPTION_CHOICE) {
            printf(":name:(");
            print_choices(o);
            printf(")");
        } else if (o->kind != OPTION_FLAG)
            printf(":%s", o->kind == OPTION_TEXT ? "text:_files" : "number: ");
        printf("'");
    }
    printf(" \\\n  '*:file:_files' ;;\n");
}

static void end_zsh(const program_spec *program) {
    (void)program;
    printf("esac\n");
}

static const description forms[] = {{"man", begin_man, command_man, end_man},
                                    {"bash", begin_bash, command_bash, end_bash},
                                    {"zsh", begin_zsh, command_zsh, end_zsh}};

bool describe_program(const program_spec *program, const char *form) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(form, forms[i].name) != 0) continue;
        forms[i].begin(program);
        options_help = forms[i].command;
        for (const program_command *c = program->commands; c->name; c++) c->run(2, (char *[]){(char *)(uintptr_t)c->name, "--help"});
        forms[i].end(program);
        return true;
    }
    return false;
}
