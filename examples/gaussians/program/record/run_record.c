// SPDX-License-Identifier: MIT
#include "record/run_record.h"
#include "gpu/growing.h"
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

void run_record_options(run_record *record, const option_spec *table, const bool *changed) {
    for (const option_spec *option = table; option->kind != OPTION_END; option++) {
        const size_t before = record->setting_count;
        const char *text = option_text(option);
        if (option->kind == OPTION_INT)
            run_record_number(record, option->name, (double)*(const int64_t *)option->value);
        else if (option->kind == OPTION_REAL)
            run_record_number(record, option->name, *(const double *)option->value);
        else if (text) // a text option that was not given is left out
            run_record_text(record, option->name, text);
        if (record->setting_count > before)
            record->settings[before].changed = changed && changed[option - table];
    }
}

static bool done_or_full(bool done, fault *why) {
    return done || fail(why, "no memory for the history of the run");
}

bool run_record_add_point(run_record *record, const run_point *point, fault *why) {
    return done_or_full(
        append(&record->points, &record->point_count, &record->point_room, point, sizeof *point), why);
}

bool run_record_add_evaluation(run_record *record, const run_evaluation *evaluation, fault *why) {
    return done_or_full(append(&record->evaluations, &record->evaluation_count, &record->evaluation_room,
                               evaluation, sizeof *evaluation),
                        why);
}

bool run_record_add_validation(run_record *record, const run_validation *validation, fault *why) {
    return done_or_full(append(&record->validations, &record->validation_count, &record->validation_room,
                               validation, sizeof *validation),
                        why);
}

const quality *run_record_last_quality(const run_record *record) {
    return record->evaluation_count ? &record->evaluations[record->evaluation_count - 1].mean : NULL;
}

void run_record_close(run_record *record) {
    free(record->points);
    free(record->evaluations);
    free(record->validations);
    *record = (run_record){0};
}
