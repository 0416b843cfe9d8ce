# UNTESTED: this has not run on Windows yet. It makes a folder with the window for Windows in dist\.
# Usage: powershell -ExecutionPolicy Bypass -File installers\windows.ps1 [FOLDER]
#
# The same layout as installers/bundle makes for Linux: a relocatable Python
# (python-build-standalone, which uv fetches), the desktop's packages by the lock file, and the
# project's files next to them. It trains on nodes over SSH; this computer itself does not train.
#
# Known obstacles: modules that the services import at their start need fcntl, which
# Windows lacks (git grep "import fcntl" backend), and readings of this computer come from /proc.
param([string]$Target = "")
$ErrorActionPreference = "Stop"

$Root = Split-Path -Parent $PSScriptRoot
if (-not $Target) { $Target = Join-Path $Root "dist" }
$Version = (Select-String -Path "$Root\pyproject.toml" -Pattern '^version = "(.*)"').Matches[0].Groups[1].Value
$Bundle = Join-Path $Target "ringmaster-$Version-windows-x86_64"
if (Test-Path $Bundle) { throw "$Bundle exists already; move it away first." }
$Work = Join-Path ([IO.Path]::GetTempPath()) ([IO.Path]::GetRandomFileName())

function Invoke-Checked([string]$Program, [string[]]$Words) {
    & $Program @Words
    if ($LASTEXITCODE -ne 0) { throw "$Program stopped with code $LASTEXITCODE." }
}

try {
    Invoke-Checked "py" @("-3", "-m", "venv", "$Work\uv")
    Invoke-Checked "$Work\uv\Scripts\pip.exe" @("install", "--quiet", "uv")
    $Uv = "$Work\uv\Scripts\uv.exe"
    Invoke-Checked $Uv @("python", "install", "--install-dir", "$Work\python", "3.12")
    New-Item -ItemType Directory -Force "$Bundle\app\installers" | Out-Null
    Copy-Item -Recurse (Get-Item "$Work\python\cpython-3.12*")[0] "$Bundle\python"
    $Python = "$Bundle\python\python.exe"

    # The lock's versions; what the desktop needs is [project] dependencies of pyproject.toml.
    $Ask = "import tomllib, sys; t = tomllib.load(open(sys.argv[1], 'rb'))['project']; " +
        "print(*t['dependencies'], 'pip==26.3', sep='\n')"
    & $Python -c $Ask "$Root\pyproject.toml" | Set-Content -Encoding ascii "$Work\wanted.txt"
    Invoke-Checked $Uv @("pip", "install", "--python", $Python, "--break-system-packages",
        "--constraint", "$Root\installers\constraints.txt", "--requirement", "$Work\wanted.txt")

    foreach ($Name in "app", "backend", "docs", "resources", "widgets", "main.py",
        "pyproject.toml", "CHANGELOG.md", "LICENSE") {
        Copy-Item -Recurse "$Root\$Name" "$Bundle\app\$Name"
    }
    Copy-Item "$Root\installers\*.py", "$Root\installers\constraints.txt" "$Bundle\app\installers"
    '{"requirements": ["training on Windows is not supported"]}' |
        Set-Content -Encoding ascii "$Bundle\app\bundle.json"
    Invoke-Checked $Python @("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash",
        "$Bundle\app")
    Set-Content -Encoding ascii "$Bundle\ringmaster.cmd" @'
@echo off
setlocal
set PYTHONHOME=
set PYTHONPATH=
set PYTHONNOUSERSITE=1
set RINGMASTER_CALLED=ringmaster
if "%~1"=="" (start "" "%~dp0python\pythonw.exe" "%~dp0app\main.py") else "%~dp0python\python.exe" "%~dp0app\main.py" %*
'@
    "$Bundle (untested)"
}
finally {
    Remove-Item -Recurse -Force $Work -ErrorAction SilentlyContinue
}
