"""The table of files that tools on a developer's machine, or their CI, execute or obey."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PACKAGE_JSON: Final = "package.json"


@dataclass(frozen=True, slots=True)
class ExecutingTool:
    """Who runs which files, and when."""

    tool: str
    reason: str
    patterns: tuple[str, ...]
    """Globs in small letters. A leading `/` means at the repository's root only; others count at
    any depth, since any folder may be the one that somebody opens or enters."""


EXECUTING_TOOLS: Final = (
    ExecutingTool(
        "shell",
        "entering the folder or starting a program reads it",
        (".envrc", ".env", ".env.*", ".autoenv.zsh", ".tool-versions", "mise.toml", ".mise.toml",
         "mise/config.toml", ".mise/**", ".config/mise/**", ".flox/**", "devenv.nix", "flake.nix",
         "shell.nix", "default.nix"),
    ),
    ExecutingTool(
        "editor",
        "opening the folder may run or obey it",
        (".vscode/**", "*.code-workspace", ".idea/**", ".run/*.run.xml", ".fleet/**", ".zed/**",
         "*.sublime-project", ".nvim.lua", ".nvimrc", ".exrc", ".vimrc", ".lvimrc",
         ".dir-locals.el", ".dir-locals-2.el", ".projectile", ".helix/**", ".vs/**"),
    ),
    ExecutingTool(
        "development container",
        "building or starting it runs what it says",
        (".devcontainer/**", ".devcontainer.json", "dockerfile", "dockerfile.*", "*.dockerfile",
         "containerfile", "compose.yaml", "compose.yml", "docker-compose*.yaml",
         "docker-compose*.yml", "vagrantfile", ".gitpod.yml", ".gitpod.dockerfile", "devfile.yaml",
         "tiltfile", "skaffold.yaml"),
    ),
    ExecutingTool(
        "CI",
        "pushing runs it, often with secrets",
        ("/.github/workflows/**", "/.github/actions/**", "action.yml", "action.yaml",
         "/.gitlab-ci.yml", "/.gitlab/**", "jenkinsfile", "jenkinsfile.*", "/.circleci/**",
         "azure-pipelines*.yml", "/.azure-pipelines/**", "/.travis.yml", "/.drone.yml",
         "/.woodpecker.yml", "/.woodpecker/**", "/bitbucket-pipelines.yml", "/appveyor.yml",
         "/.appveyor.yml", "/.buildkite/**", "/cloudbuild.yaml", "/buildspec.yml", "/.cirrus.yml",
         "/.gitea/workflows/**", "/.forgejo/workflows/**", "/.builds/**", "/.build.yml",
         "/.semaphore/**", "/.teamcity/**", "/netlify.toml", "/.readthedocs.yaml", "/.ci/**"),
    ),
    ExecutingTool(
        "git hook",
        "committing or pushing runs it",
        (".pre-commit-config.yaml", ".pre-commit-hooks.yaml", ".husky/**", ".huskyrc*",
         ".githooks/**", "lefthook*.yml", "lefthook*.yaml", "lefthook*.toml", ".lefthook*.yml",
         ".lefthook/**", ".overcommit.yml", ".lintstagedrc*", "lint-staged.config.*"),
    ),
    ExecutingTool(
        "git",
        "git fetches, filters or compares as it says",
        (".gitattributes", ".gitmodules", ".lfsconfig", ".gitconfig"),
    ),
    ExecutingTool(
        "Python",
        "starting the interpreter imports it",
        ("sitecustomize.py", "usercustomize.py", "sitecustomize/__init__.py",
         "usercustomize/__init__.py", "*.pth", "pyvenv.cfg"),
    ),
    ExecutingTool(
        "compiled Python",
        "python runs compiled files in place of the source that people read",
        ("*.pyc", "__pycache__/**", "*.so", "*.pyd", "*.dylib"),
    ),
    ExecutingTool(
        "Python tests and builds",
        "testing, building or installing runs or obeys it",
        ("conftest.py", "conftest/__init__.py", "pytest.ini", ".pytest.ini", "pytest.toml",
         ".pytest.toml", "pytest.py", "pytest/__init__.py", "_pytest/**", "tox.ini", "noxfile.py",
         "setup.py", "setup.cfg", "pyproject.toml", "hatch.toml", "hatch_build.py", "tasks.py",
         "dodo.py", "fabfile.py", "pip.conf", "uv.toml", ".coveragerc", "sconstruct", "sconscript",
         "wscript", ".pylintrc", "pylintrc", "mypy.ini", ".pdbrc"),
    ),
    ExecutingTool(
        "package scripts",
        "installing, testing or publishing runs them",
        (PACKAGE_JSON, "binding.gyp", "composer.json"),
    ),
    ExecutingTool(
        "package manager",
        "it decides which scripts and which registry are used",
        (".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/**", ".pnp.cjs", ".pnp.loader.mjs",
         ".pnpmfile.cjs", ".pnpmfile.mjs", "pnpmfile.js", "pnpm-workspace.yaml", "bunfig.toml",
         ".corepack.env", "deno.json", "deno.jsonc", ".bundle/**", "nuget.config"),
    ),
    ExecutingTool(
        "JavaScript tools",
        "building, testing, linting or opening an editor runs it",
        ("*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", "*.config.mts",
         "*.config.cts", ".eslintrc*", ".babelrc*", ".prettierrc*", ".stylelintrc*", ".mocharc*",
         ".postcssrc*", "gulpfile.*", "gruntfile.*", ".releaserc*"),
    ),
    ExecutingTool(
        "make",
        "building or testing runs it",
        ("makefile", "gnumakefile", "makefile.*", "*.mk", "justfile", ".justfile", "*.just",
         "taskfile*.yml", "taskfile*.yaml", "rakefile", "*.rake", "cmakelists.txt", "*.cmake",
         "cmakepresets.json", "meson.build", "configure", "configure.ac", "autogen.sh",
         "build.ninja", "build.sh", "earthfile", "magefile.go", "procfile"),
    ),
    ExecutingTool(
        "language tools",
        "building, testing or installing runs or obeys it",
        ("build.rs", ".cargo/**", "rust-toolchain", "rust-toolchain.toml", "build.zig",
         "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts",
         "gradle.properties", "init.gradle", "gradlew", "gradlew.bat", "gradle/wrapper/**",
         "pom.xml", ".mvn/**", "mvnw", "mvnw.cmd", "build.xml", "build.sbt", "project/*.sbt",
         "gemfile", "*.gemspec", ".rspec", ".irbrc", ".pryrc", "mix.exs", "package.swift",
         "directory.build.props", "directory.build.targets", "*.csproj", "*.targets",
         ".bazelrc", "workspace.bazel", "module.bazel", "build.bazel", "*.bzl", ".buckconfig",
         ".rprofile", "makefile.pl", "build.pl", ".ghci", "setup.hs", "dune-project"),
    ),
    ExecutingTool(
        "debugger",
        "starting it in the folder reads it",
        (".gdbinit", ".lldbinit", ".gdbearlyinit"),
    ),
    ExecutingTool(
        "coding agent",
        "an agent started in the folder obeys it",
        (".claude/**", "claude.md", "claude.local.md", ".codex/**", ".cursor/**", ".cursorrules",
         ".mcp.json", "mcp.json", "agents.md", "agents.override.md", ".agents/**", "gemini.md",
         ".gemini/**", ".github/copilot-instructions.md", ".github/instructions/**",
         ".github/agents/**", ".github/prompts/**", ".windsurf/**", ".windsurfrules",
         ".aider.conf.yml", ".continue/**", ".roo/**", ".clinerules", ".clinerules/**",
         ".opencode/**", "opencode.json", "opencode.jsonc", ".kiro/**", ".junie/**",
         ".goosehints"),
    ),
)  # fmt: skip
"""Looked up in order; the first row that names a path tells the reason."""
