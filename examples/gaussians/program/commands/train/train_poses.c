// SPDX-License-Identifier: MIT
#include "train_poses.h"
#include "transforms.h"
#include <stdlib.h>
#include <string.h>

bool train_poses_open(train_poses *p, view_split *split, double extent, double degrees, double distance,
                      uint64_t seed, fault *why) {
    const size_t count = split->training + split->held_out;
    *p = (train_poses){.split = split,
                       .given = malloc(count * sizeof *p->given),
                       .now = malloc(count * sizeof *p->now),
                       .extent = extent};
    if (!p->given || !p->now) return fail(why, "no memory for the poses of %zu views", count);
    for (size_t i = 0; i < count; i++) p->given[i] = pose_of(&split->views[i].camera);
    if (degrees > 0 || distance > 0)
        perturb_poses(split->views, split->training, degrees, distance * extent, seed);
    p->record.views = split->training;
    p->record.before = train_poses_difference(p, NULL);
    return true;
}

void train_poses_close(train_poses *p) {
    free(p->given);
    free(p->now);
    *p = (train_poses){0};
}

// Copies the poses of the training views to p->now, in double precision where they are refined.
static void read_training_poses(train_poses *p, const refined_pose *poses) {
    for (size_t i = 0; i < p->split->training; i++)
        p->now[i] = poses ? poses[i].now : pose_of(&p->split->views[i].camera);
}

void train_poses_place_held_out(train_poses *p, const training_state *state) {
    const size_t training = p->split->training;
    if (state->poses == 0) return;
    read_training_poses(p, state->pose);
    const similarity moved = similarity_between(p->given, p->now, training);
    for (size_t i = training; i < training + p->split->held_out; i++) {
        p->now[i] = p->given[i];
        similarity_apply(&moved, &p->now[i]);
        pose_to_camera(&p->now[i], &p->split->views[i].camera);
    }
}

void train_poses_adopt(train_poses *p, const training_state *state) {
    if (state->poses == 0) return;
    train_poses_place_held_out(p, state);
    for (size_t i = 0; i < p->split->training; i++) pose_to_camera(&p->now[i], &p->split->views[i].camera);
}

pose_difference train_poses_difference(train_poses *p, const refined_pose *poses) {
    read_training_poses(p, poses);
    pose_difference d = pose_difference_between(p->now, p->given, p->split->training);
    d.mean_distance /= p->extent;
    d.largest_distance /= p->extent;
    return d;
}

bool train_poses_write(const train_poses *p, const dataset *data, const char *path, fault *why) {
    reconstruction_view *frames = calloc(data->view_count, sizeof *frames);
    if (!frames) return fail(why, "%s: no memory to write it", path);
    size_t next[2] = {0, p->split->training}; // the split has the views to train on first
    for (size_t i = 0; i < data->view_count; i++) {
        const dataset_view *view = &data->views[i];
        const size_t at = next[view->held_out]++;
        const pose now = pose_of(&p->split->views[at].camera);
        frames[i] =
            (reconstruction_view){.name = view->name, .mask = view->mask_path, .optics = view->optics};
        memcpy(frames[i].rotation, now.rotation, sizeof now.rotation);
        memcpy(frames[i].translation, now.translation, sizeof now.translation);
        for (int k = 0; k < 9; k++) // in the data's coordinates again
            frames[i].translation[k / 3] -= now.rotation[k] * data->offset[k % 3];
    }
    const bool written = transforms_save(path, data->picture_folder, frames, data->view_count, why);
    free(frames);
    return written;
}
