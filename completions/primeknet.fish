# Completion of primeknet(1) for fish: the program itself tells what fits.
function __primeknet_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] complete -- $words[2..] 2> /dev/null)
        if test $line = :files
            __fish_complete_path $words[-1]
        else
            echo $line
        end
    end
end
complete -c primeknet -f -a '(__primeknet_complete)'
