#!/bin/sh
# Makes the namespaces that it was started in a machine, and becomes the machine's PID 1.
# Usage: node_start.sh NAME BOOT_ID FOLDER IMAGE [PACKAGE THAT IS NOT ON THIS MACHINE ...]
set -eu
umask 022
name=$1 boot_id=$2 folder=$3 image=$4
shift 4

place=$folder/disk root=$folder/disk/root
mount -o loop,noatime "$folder/disk.ext4" "$place"
first_boot=
[ -d "$root" ] || first_boot=yes
mkdir -p "$place/upper" "$place/work" "$root"
mount -t overlay overlay -o "lowerdir=$image,upperdir=$place/upper,workdir=$place/work" "$root"

mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755,size=1m tmpfs "$root/dev"
for device in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
    mknod -m 666 "$root/dev/${device%% *}" c ${device#* }
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
ln -s pts/ptmx "$root/dev/ptmx"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,mode=620,gid=5,ptmxmode=666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -m 1777 "$root/run/lock"
mkdir "$root/run/sshd"

# All namespaces share the kernel's boot id; only a mount over it makes one's own.
echo "$boot_id" >"$place/boot_id"
mount --bind "$place/boot_id" "$root/proc/sys/kernel/random/boot_id"

# A slave of the desktop's mount: what the desktop mounts in there, or unmounts, does so here.
mount --rbind "$folder/srv" "$root/srv"

if [ -n "$first_boot" ]; then
    cp -R --no-preserve=mode,ownership "$folder/identity/." "$root/"
    chmod 600 "$root"/etc/ssh/ssh_host_*_key
    chmod 700 "$root/home/lab/.ssh"
    chroot "$root" chown -R lab:lab "/home/lab"
    [ $# = 0 ] || chroot "$root" dpkg --purge "$@"
fi

cd "$root"
pivot_root . .
umount -l .
rm -rf /tmp
mkdir -m 1777 /tmp
hostname "$name"
exec /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -c '
    /usr/sbin/sshd -E /var/log/sshd.log
    # A shell that waits takes the orphans in; ending what it waits for ends nothing.
    while :; do
        sleep infinity &
        wait $!
    done' init </dev/null
