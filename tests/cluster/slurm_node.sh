#!/bin/sh
# Makes the namespaces that it was started in a machine of a Slurm cluster, and becomes its daemons.
# Usage: slurm_node.sh NAME FOLDER CGROUP_VERSION COMMAND [ARGUMENT ...]
# The machine has the files of this one, but its own /tmp, shared memory, name and boot id.
set -eu
name=$1 folder=$2 cgroups=$3
shift 3

mount --make-rprivate /
mount -t proc proc /proc
hostname "$name"
for file in hosts passwd group; do
    mount --bind "$folder/$file" "/etc/$file"
done
cat /proc/sys/kernel/random/uuid >"$folder/$name.boot_id"
mount --bind "$folder/$name.boot_id" /proc/sys/kernel/random/boot_id
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
# The data root of a test, this checkout and its Python may lie below /tmp: each machine has those of
# the desktop, and nothing else of its /tmp.
mount --rbind /tmp /mnt
mount -t tmpfs -o mode=1777 tmpfs /tmp
while read -r shared; do
    mkdir -p "$shared"
    mount --rbind "/mnt/${shared#/tmp/}" "$shared"
done <"$folder/shared_of_tmp"
# What the user of the login node has on all machines, below a folder that is empty otherwise.
mount -t tmpfs -o mode=755 tmpfs /srv
while read -r source target; do
    mkdir -p "$target"
    case $source in /tmp/*) source=/mnt/${source#/tmp/} ;; esac
    mount --bind "$source" "$target"
done <"$folder/mounts"
umount --lazy /mnt

# slurmd 22.05 refuses a machine that has both versions of control groups mounted.
umount -R /sys/fs/cgroup 2>/dev/null || true
if [ "$cgroups" = v1 ]; then
    mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
    for controller in cpu cpuacct cpuset memory devices freezer; do
        mkdir "/sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller"
    done
else
    mount -t cgroup2 cgroup /sys/fs/cgroup
fi
# A shell that waits takes the orphans in.
exec env -i PATH="$PATH" HOME=/root LC_ALL=C.UTF-8 SLURM_CONF="$folder/slurm.conf" \
    /bin/sh -c '"$@" & wait $!' init "$@" </dev/null
