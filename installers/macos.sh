#!/bin/sh
# UNTESTED: this has not run on a Mac yet. It makes Ringmaster.app, the window for macOS, in dist/.
# Usage: installers/macos.sh [FOLDER]
#
# The same layout as installers/bundle makes for Linux: a relocatable Python
# (python-build-standalone, which uv fetches), the desktop's packages by the lock file, and the
# project's files next to them. It trains on nodes over SSH; the Mac itself does not train.
# Known obstacle: readings of this computer come from /proc, which a Mac does not have.
# Without a developer's signature macOS asks at the first start (right click, Open).
set -eu

root=$(cd -- "$(dirname -- "$0")/.." && pwd -P)
target=${1:-$root/dist}
bundle=$target/Ringmaster.app
content=$bundle/Contents
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

[ ! -e "$bundle" ] || {
    echo "$bundle exists already; move it away first." >&2
    exit 1
}
python3 -m venv "$work/uv"
"$work/uv/bin/pip" install --quiet uv
"$work/uv/bin/uv" python install --install-dir "$work/python" 3.12
mkdir -p "$content/MacOS" "$content/Resources"
cp -R "$work"/python/cpython-3.12*/ "$content/Resources/python"
python=$content/Resources/python/bin/python3.12

# The lock's versions; what the desktop needs is [project] dependencies of pyproject.toml.
"$work/uv/bin/uv" export --quiet --no-project --help >/dev/null 2>&1 || true
"$python" -c 'import tomllib, sys
table = tomllib.load(open(sys.argv[1], "rb"))["project"]
print(*table["dependencies"], "pip==26.3", sep="\n")' "$root/pyproject.toml" >"$work/wanted.txt"
"$work/uv/bin/uv" pip install --python "$python" --break-system-packages \
    --constraint "$root/installers/constraints.txt" --requirement "$work/wanted.txt"

app=$content/Resources/app
mkdir -p "$app/installers"
for name in app backend docs resources widgets main.py pyproject.toml CHANGELOG.md LICENSE; do
    cp -R "$root/$name" "$app/$name"
done
cp "$root"/installers/*.py "$root/installers/constraints.txt" "$app/installers/"
echo '{"requirements": ["training on a Mac is not supported"]}' >"$app/bundle.json"
"$python" -m compileall -q --invalidation-mode unchecked-hash "$app"

cat >"$content/MacOS/ringmaster" <<'LAUNCHER'
#!/bin/sh
resources=$(cd -- "$(dirname -- "$0")/../Resources" && pwd -P)
unset PYTHONHOME PYTHONPATH PYTHONSTARTUP
export PYTHONNOUSERSITE=1
export RINGMASTER_CALLED="${0##*/}"
exec "$resources/python/bin/python3.12" "$resources/app/main.py" "$@"
LAUNCHER
chmod +x "$content/MacOS/ringmaster"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")
cat >"$content/Info.plist" <<PLIST
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>CFBundleName</key><string>Ringmaster</string>
<key>CFBundleIdentifier</key><string>org.ringmaster.desktop</string>
<key>CFBundleVersion</key><string>$version</string>
<key>CFBundleShortVersionString</key><string>$version</string>
<key>CFBundleExecutable</key><string>ringmaster</string>
<key>CFBundlePackageType</key><string>APPL</string>
<key>NSHighResolutionCapable</key><true/>
</dict></plist>
PLIST
echo "$bundle (untested)"
