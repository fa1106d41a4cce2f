#!/bin/sh
# SPDX-License-Identifier: MIT
# A CI step on a machine with shared GPUs: waits at most an hour for a GPU, then tests for at most 30 minutes.
exec gpuq exec --mem 4G --wait-timeout 1h --timeout 30m --name "ci-${CI_JOB_ID:-local}" -- "${@:-make}"
