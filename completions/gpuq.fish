# fish completion for gpuq. SPDX-License-Identifier: MIT
# `gpuq complete` knows the candidates; see src/cli/complete.h for what it prints.

function __gpuq_complete
    command -q gpuq; or return
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    # Split --config=FILE into the option and its value.
    set -l head (string match -r -- '^--[^=]*=' $current)
    set -l value (string replace -r -- '^--[^=]*=' '' $current)
    set -l allowed '^.*$'
    for line in (command gpuq complete -- $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case \tfiles
                printf '%s\n' "$head"(__fish_complete_path "$value" | string match -r -- $allowed)
            case \tdirectories
                printf '%s\n' "$head"(__fish_complete_directories "$value")
            case \tcommands
                # `gpuq exec` executes the word itself; elsewhere it can be a command for a shell. Anybody may have
                # chosen these names: offer only those that need no quotes there.
                test "$words[2]" = exec; or set allowed '^[[:alnum:]_.,:=@%+/-]*(?:\t.*)?$'
                printf '%s\n' "$head"(complete -C "$value" | string match -r -- $allowed)
            case \targuments\ \*
                set -l first (math (string split ' ' -- $line)[2] + 2)
                complete -C (string join -- ' ' (string escape -- $words[$first..-1]) "$current")
            case '*'
                printf '%s\n' $line
        end
    end
end

complete -c gpuq -f -k -a '(__gpuq_complete)'
