# bash completion for gpuq. SPDX-License-Identifier: MIT
# `gpuq complete` prints the candidates, which are plain words; src/cli/complete.h describes its output. Other names
# of files never pass through this script: anybody may have chosen them, and only bash itself quotes them correctly.

# Whether it is unsafe to let bash complete a file that begins with this word. If the folder in the word does not exist,
# bash expands it, even if it is quoted, and `$((a[$(command)]))` runs the command. If the word has a variable, bash also
# expands the names that it finds. So the word must not contain a $.
_gpuq_is_code()
{
	[[ $1 == *[\`\$]* ]]
}

_gpuq()
{
	local line=${COMP_LINE:0:COMP_POINT} blanks word last typed asked='' is_plain=yes i
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
	local -a raw=("${words[@]}")
	last=${words[${#words[@]} - 1]}
	for i in "${!words[@]}"; do
		words[i]=${words[i]//[\"\'\\]/}
	done
	word=${words[${#words[@]} - 1]}

	# bash replaces only the part after the last of these characters.
	typed=${word%"${word##*[=:]}"}
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		$'\tfiles') asked=default ;;
		$'\tdirectories') asked=dirnames ;;
		$'\targuments '[0-9] | $'\targuments '[0-9][0-9])
			asked=default
			i=$((10#${line##* } + 1))
			# Functions for other commands evaluate words: they get only plain ones.
			for word in "${raw[@]:i}"; do
				[[ $word != *[!A-Za-z0-9_.,:=@%+/-]* ]] || is_plain=
			done
			[[ $is_plain ]] && _gpuq_delegate "${first[i]}" && return
			;;
		$'\t'*) ;;
		*)
			line=${line%%$'\t'*}
			line=${line#"$typed"}
			# bash inserts these words as they are.
			[[ ${line#\~/} == *[!A-Za-z0-9_.,:=@%+/-]* ]] || COMPREPLY+=("$line")
			[[ $line != */ ]] || compopt -o nospace 2>/dev/null
			;;
		esac
	done < <(gpuq complete -- "${words[@]:1}" 2>/dev/null)
	[[ -z $asked ]] || _gpuq_is_code "$last ${2-}" || compopt -o "$asked" 2>/dev/null
}

# Completes the command that begins at this word. Fails without the package bash-completion.
_gpuq_delegate()
{
	local offset
	for offset in _comp_command_offset _command_offset; do
		if declare -F "$offset" >/dev/null; then
			"$offset" "$1"
			return 0
		fi
	done
	return 1
}

# Keep the order of gpuq: the newest job first.
complete -o nosort -F _gpuq gpuq
