# bash completion for gpuq. SPDX-License-Identifier: MIT
# `gpuq complete` knows the candidates; see src/cli/complete.h for what it prints.

# Other users may have chosen these names. With "filenames", bash quotes what it inserts. With $plain, the word is text for
# another shell, which would need a second level of quotes: offer only names that need none.
_gpuq_files()
{
	local file
	compopt -o filenames 2>/dev/null
	while IFS= read -r file; do
		[[ $plain && $file == *[![:alnum:]_.,:=@%+/-]* ]] || COMPREPLY+=("$file")
	done < <(compgen "$@" -- "$value")
}

_gpuq()
{
	local line=${COMP_LINE:0:COMP_POINT} blanks word value typed plain= i at
	local -a words=() first=()

	# bash splits --state=running and tag:night into several words: join words that no blank separates.
	for ((i = 0; i <= COMP_CWORD; i++)); do
		blanks=${line%%[![:space:]]*}
		line=${line:${#blanks}}
		word=${COMP_WORDS[i]}
		((i < COMP_CWORD)) || word=$line
		line=${line:${#word}}
		if ((i > 0)) && [[ -z $blanks ]]; then
			words[${#words[@]} - 1]+=$word
		else
			words+=("$word")
			first+=("$i")
		fi
	done
	for i in "${!words[@]}"; do
		words[i]=${words[i]//[\"\'\\]/}
	done
	word=${words[${#words[@]} - 1]}
	value=$word
	[[ $word != --*=* ]] || value=${word#*=}

	# bash replaces only the part after the last of these characters.
	typed=${word%"${word##*[=:]}"}
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		$'\tfiles') _gpuq_files -f ;;
		$'\tdirectories') _gpuq_files -d ;;
		$'\tcommands')
			# `gpuq exec` executes the word itself; elsewhere it can be a command for a shell.
			[[ ${words[1]} == exec ]] || plain=yes
			_gpuq_files -c
			;;
		$'\targuments '*)
			at=${first[${line##* } + 1]}
			if declare -F _comp_command_offset >/dev/null; then
				_comp_command_offset "$at"
			elif declare -F _command_offset >/dev/null; then
				_command_offset "$at"
			else
				_gpuq_files -f
			fi
			return
			;;
		*)
			line=${line%%$'\t'*}
			printf -v line %q "${line#"$typed"}"
			COMPREPLY+=("$line")
			;;
		esac
	done < <(gpuq complete -- "${words[@]:1}" 2>/dev/null)
}

# Keep the order of gpuq: the newest job first.
complete -o nosort -F _gpuq gpuq
