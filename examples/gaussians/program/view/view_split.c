// SPDX-License-Identifier: MIT
#include "view/view_split.h"
#include <stdlib.h>

static bool add_view(view_split *split, const dataset_view *view, bool with_alpha, fault *why) {
    target_view *next = &split->views[split->training + split->held_out];
    if (!target_view_open(next, &view->camera, &view->picture, why))
        return fail(why, "%s: %s", view->name, why->text);
    if (with_alpha) target_view_set_alpha(next, view->alpha);
    target_view_set_mask(next, view->mask);
    next->outline = view->alpha;
    next->name = view->name;
    (*(view->held_out ? &split->held_out : &split->training))++;
    return true;
}

bool view_split_open(view_split *split, const dataset *data, const char *source, bool with_alpha,
                     fault *why) {
    *split = (view_split){.views = calloc(data->view_count + 1, sizeof *split->views)};
    if (!split->views) return fail(why, "no memory for %zu views", data->view_count);
    for (int held_out = 0; held_out < 2; held_out++)
        for (size_t i = 0; i < data->view_count; i++)
            if (data->views[i].held_out == held_out && !add_view(split, &data->views[i], with_alpha, why))
                return false;
    return split->training > 0 ||
           fail(why, "%s: no view is left to train on; all %zu are held out", source, data->view_count);
}

void view_split_close(view_split *split) {
    for (size_t i = 0; i < split->training + split->held_out; i++) target_view_close(&split->views[i]);
    free(split->views);
    *split = (view_split){0};
}
