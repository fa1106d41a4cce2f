# fish completion for gpuq. SPDX-License-Identifier: MIT
# `gpuq complete` prints the candidates, which are plain words; src/cli/complete.h describes its output. Other names
# of files never pass through this script: anybody may have chosen them, and only fish itself quotes them correctly.

function __gpuq_ask
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    command gpuq complete -- $words[2..-1] "$current" 2>/dev/null
end

# `complete` has no option for directories only, so fish offers files, too.
function __gpuq_wants_files
    __gpuq_ask | string match -qr '^\t(files|directories|arguments [0-9]+)$'
end

function __gpuq_complete
    for line in (__gpuq_ask)
        switch $line
            case \targuments\ \*
                # fish completes the rest of the line as if it were a command line. It prints names of files without quotes:
                # take only plain words, and let fish complete files itself.
                set -l words (commandline -opc)
                set -l current (commandline -ct)
                set -l first (math (string match -r '[0-9]+$' -- $line) + 2)
                complete -C (string join -- ' ' (string escape -- $words[$first..-1]) "$current") |
                    string match -r '^[A-Za-z0-9_.,:=@%+/-]+(?:\t.*)?$'
            case \t\*
            case '*'
                printf '%s\n' $line
        end
    end
end

complete -c gpuq -f -k -a '(__gpuq_complete)'
complete -c gpuq -n __gpuq_wants_files -F
