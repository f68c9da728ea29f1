// SPDX-License-Identifier: MIT
#include "record/run_record.h"
#include "growing.h"
#include <assert.h>

static run_setting *next_setting(run_record *record) {
    assert(record->setting_count < RUN_SETTINGS);
    return &record->settings[record->setting_count++];
}

void run_record_text(run_record *record, const char *name, const char *text) {
    *next_setting(record) = (run_setting){.name = name, .text = text};
}

void run_record_number(run_record *record, const char *name, double number) {
    *next_setting(record) = (run_setting){.name = name, .number = number};
}

void run_record_options(run_record *record, const option_spec *table) {
    for (const option_spec *option = table; option->kind != OPTION_END; option++) switch (option->kind) {
        case OPTION_FLAG:
            run_record_text(record, option->name, *(const bool *)option->value ? "yes" : "no");
            break;
        case OPTION_INT:
            run_record_number(record, option->name, (double)*(const int64_t *)option->value);
            break;
        case OPTION_REAL:
            run_record_number(record, option->name, *(const double *)option->value);
            break;
        case OPTION_CHOICE:
            run_record_text(record, option->name, option->choices[*(const int *)option->value]);
            break;
        default: { // a text option that was not given is left out
            const char *text = *(const char *const *)option->value;
            if (text) run_record_text(record, option->name, text);
        }
        }
}

bool run_record_add_point(run_record *record, const run_point *point, fault *why) {
    run_point *grown =
        growing(record->points, record->point_count, &record->point_room, sizeof *record->points);
    if (!grown) return fail(why, "no memory for the history of the run");
    record->points = grown;
    grown[record->point_count++] = *point;
    return true;
}

bool run_record_add_evaluation(run_record *record, const run_evaluation *evaluation, fault *why) {
    run_evaluation *grown = growing(record->evaluations, record->evaluation_count, &record->evaluation_room,
                                    sizeof *record->evaluations);
    if (!grown) return fail(why, "no memory for the history of the run");
    record->evaluations = grown;
    grown[record->evaluation_count++] = *evaluation;
    return true;
}

bool run_record_add_lm_step(run_record *record, const run_lm_step *step, fault *why) {
    run_lm_step *grown =
        growing(record->lm_steps, record->lm_step_count, &record->lm_step_room, sizeof *record->lm_steps);
    if (!grown) return fail(why, "no memory for the history of the run");
    record->lm_steps = grown;
    grown[record->lm_step_count] = *step;
    grown[record->lm_step_count++].step.milliseconds = NULL;
    return true;
}

const quality *run_record_last_quality(const run_record *record) {
    return record->evaluation_count ? &record->evaluations[record->evaluation_count - 1].mean : NULL;
}

void run_record_close(run_record *record) {
    free(record->points);
    free(record->evaluations);
    free(record->lm_steps);
    *record = (run_record){0};
}
