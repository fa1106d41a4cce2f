#!/bin/sh
# SPDX-License-Identifier: MIT
# A step of CI on a machine whose GPUs others use, too: wait at most an hour for a GPU, test for at most 30 minutes.
exec gpuq exec --mem 4G --wait-timeout 1h --timeout 30m --name "ci-${CI_JOB_ID:-local}" -- "${@:-make}"
