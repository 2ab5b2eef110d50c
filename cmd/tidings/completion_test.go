package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidings/internal/check/checktest"
)

// completions lists typed lines, and the word to which the last one is completed.
var completions = []struct{ typed, word string }{
	{"tidings healt", "healthcheck"},
	{"tidings opml im", "import"},
	{"tidings completion zs", "zsh"},
	{"tidings publish --format at", "atom"},
	{"tidings run --subscribe-on-read ne", "never"},
	{"tidings run --keyw", "--keyword-items"},
	{"tidings --config healt", "healt.toml"},
	{"tidings --config healt.toml healt", "healthcheck"},
	{"tidings opml import mi", "mine.opml"},
	{"tidings opml import --data home mi", "mine.opml"},
	{"tidings run --data ho", "home/"},
	{"tidings opml export --or", "--original"},
}

// Each shell loads its script and completes with it.
func TestCompletions(t *testing.T) {
	for _, shell := range []struct {
		name    string
		program string // reads the script $1 and a typed line from $2, and prints the completions of the last word
	}{
		{"bash", `source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tidings; printf '%s\n' "${COMPREPLY[@]}"`},
		{"fish", `source $argv[1]; complete -C $argv[2] | string replace -r '\t.*' ''; true`},
		// The line is typed to a second zsh on a pseudo terminal. A function stands for the program.
		{"zsh", `
			print -r -- "autoload -U compinit; compinit -D -u; source ${(q)1}; tidings() { print -r -- \"<\$argv[-1]>\" }; print loaded" > setup.zsh
			zmodload zsh/zpty
			zpty shell zsh -f -i
			zpty -w shell 'source ./setup.zsh'
			zpty -r shell seen '*loaded*' || exit 1
			zpty -w -n shell "$2"$'\t\n'
			zpty -r shell seen '*<*>*' || exit 1
			print -r -- ${${seen##*<}%%>*}`},
	} {
		t.Run(shell.name, func(t *testing.T) {
			path := checktest.Tool(t, shell.name, "its completions are tried in it")
			dir := t.TempDir()
			t.Chdir(dir)
			var text bytes.Buffer
			if err := command(context.Background(), []string{"completion", shell.name}, strings.NewReader(""), &text, io.Discard); err != nil {
				t.Fatal(err)
			}
			for file, content := range map[string]string{"script": text.String(), "mine.opml": "", "healt.toml": "", "home/file": ""} {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range completions {
				args := map[string][]string{
					"bash": {"--norc", "-c", shell.program, "bash"}, "fish": {"--no-config", "-c", shell.program}, "zsh": {"-f", "-c", shell.program, "zsh"},
				}[shell.name]
				run := exec.CommandContext(t.Context(), path, append(args, "./script", c.typed)...)
				run.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TERM=vt100", "LC_ALL=C.UTF-8"}
				out, err := run.CombinedOutput()
				if got := strings.TrimSuffix(string(out), "\n"); err != nil || strings.TrimSuffix(got, "/") != strings.TrimSuffix(c.word, "/") {
					t.Errorf("%q becomes %q, %v; want %q", c.typed, got, err, c.word)
				}
			}
		})
	}
}

func TestCompletionRejectsUnknownShells(t *testing.T) {
	var out, words bytes.Buffer
	if code := run(context.Background(), []string{"completion", "tcsh"}, strings.NewReader(""), &out, &words); code != exitUsage || out.Len() > 0 || strings.Count(words.String(), "\n") != 1 {
		t.Errorf("code %d, %q, %q", code, &out, &words)
	}
}

// The manual page contains every command and every flag of the help.
func TestManualIsComplete(t *testing.T) {
	var out strings.Builder
	if err := command(context.Background(), []string{"manual", "--date", "2026-11-26"}, strings.NewReader(""), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, c := range commandsOf(documentedGrammar().Node) {
		if c.path == "" {
			continue
		}
		_, section, found := strings.Cut(page, "## tidings "+c.path+"\n")
		if !found {
			t.Errorf("the page lacks tidings %s", c.path)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for _, f := range c.flags {
			text := section
			if f.Name == "help" || f.Name == "version" || f.Name == "config" {
				text = page
			}
			if !strings.Contains(text, "**--"+f.Name+"**") {
				t.Errorf("tidings %s: the page lacks --%s", c.path, f.Name)
			}
		}
	}
	if home, err := os.UserHomeDir(); err == nil && strings.Contains(page, home+"/") {
		t.Errorf("the page has a home directory in it: %s", home)
	}
}
