package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/adrg/xdg"
	"github.com/alecthomas/kong"
)

// configFile is where settings are looked for if no file is named.
func configFile() string { return userPath(xdg.ConfigHome, "XDG_CONFIG_HOME", "config.toml") }

// dataDir is where a node lives if no place is named.
func dataDir() string { return userPath(xdg.DataHome, "XDG_DATA_HOME") }

// accessDir is where nodes of this user leave their tokens for commands, by the address at which they
// serve. It depends on nothing but the user's home, as nodes and commands may be started in
// different ways.
func accessDir() string { return userPath(xdg.StateHome, "XDG_STATE_HOME") }

// userPath is a path of tidings below a directory of the user, which an environment variable may name. The path is
// empty if the directory would be in the user's home and that is not known.
func userPath(dir, variable string, file ...string) string {
	if _, err := os.UserHomeDir(); err != nil && !filepath.IsAbs(os.Getenv(variable)) {
		return "" // package xdg takes / for the home
	}
	return filepath.Join(append([]string{dir, "tidings"}, file...)...)
}

// settings are what a file says: values by the names of flags.
type settings struct {
	file   string
	values map[string]any
}

// BeforeResolve is called by kong before it looks for the flags that were not
// given. It reads the file.
func (g *grammar) BeforeResolve(c *kong.Context) error {
	file, named := settingsFile(c)
	s, err := readSettings(file, named, flagNames(c.Model.Node))
	if err != nil {
		return err
	}
	c.AddResolver(s)
	return nil
}

// settingsFile is the file of settings, and whether the user named it.
func settingsFile(c *kong.Context) (file string, named bool) {
	for _, f := range c.Model.Flags {
		if f.Name == "config" {
			file = c.FlagValue(f).(string)
		}
	}
	return cmp.Or(file, configFile()), file != ""
}

// whereGiven says where a setting that was given stands.
func whereGiven(c *kong.Context, f *kong.Flag) string {
	if slices.ContainsFunc(c.Path, func(p *kong.Path) bool { return p.Flag == f && !p.Resolved }) {
		return "the flag --" + f.Name
	}
	for _, e := range f.Envs {
		if _, ok := os.LookupEnv(e); ok {
			return "the environment variable " + e
		}
	}
	file, _ := settingsFile(c)
	return file
}

// misspelt refuses variables of the environment that are no settings but almost have the name of one. Others are left
// alone: Kubernetes, for one, makes variables from the name of a service.
func misspelt(n *kong.Node, environ []string) error {
	known := append(variables(n), "TIDINGS_PASSPHRASE")
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "TIDINGS_") || slices.Contains(known, name) {
			continue
		}
		if near := nearest(name, known); near != "" {
			return usagef("unknown environment variable %s; did you mean %s?", name, near)
		}
	}
	return nil
}

// variables are the environment variables of a command and those below it.
func variables(n *kong.Node) (names []string) {
	for _, f := range n.Flags {
		names = append(names, f.Envs...)
	}
	for _, child := range n.Children {
		names = append(names, variables(child)...)
	}
	return names
}

// nearest is the name from which a misspelt one differs by at most two letters; empty if there is none.
func nearest(name string, names []string) (near string) {
	least := 3
	for _, n := range names {
		if d := edits(name, n); d < least {
			near, least = n, d
		}
	}
	return near
}

// edits is how many letters have to be put in, taken out or changed to turn one text into another.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// readSettings reads a file of which nobody may expect that it exists, unless it
// was named. A key that is no flag is an error: it would be without effect.
func readSettings(file string, named bool, flags []string) (settings, error) {
	s := settings{file: file}
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return s, nil
	case err != nil:
		return s, fmt.Errorf("settings: %w", unreadable(file, err))
	}
	if err := toml.Unmarshal(b, &s.values); err != nil {
		if at, ok := errors.AsType[toml.ParseError](err); ok {
			line := at.Position.Line
			return s, fmt.Errorf("settings: %s, line %d: %s", file, line, unquoted(string(b), line, at.Message))
		}
		return s, fmt.Errorf("settings: %s: %w", file, err)
	}
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if !slices.Contains(flags, key) {
			near := nearest(key, flags)
			if near != "" {
				near = fmt.Sprintf("; did you mean %q?", near)
			}
			return s, fmt.Errorf("settings: %s, line %d: unknown setting %q%s", file, lineOf(string(b), key), key, near)
		}
		if s.values[key], err = plain(s.values[key]); err != nil {
			return s, fmt.Errorf("settings: %s: %s: %w", file, key, err)
		}
	}
	return s, nil
}

// unreadable says in plain words that a file that the user named cannot be read.
func unreadable(file string, err error) error {
	at, ok := errors.AsType[*fs.PathError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot read %s: permission denied; run the command as a user who may read the file", file)
	}
	return fmt.Errorf("cannot read %s: %w; check the name of the file", file, at.Err)
}

// bare finds a setting with a value that is neither in quotes nor a list.
var bare = regexp.MustCompile(`^\s*([a-z-]+)\s*=\s*([^\s"'\[{#][^"'#]*?)\s*(?:#.*)?$`)

// unquoted says what is wrong with a line that is not TOML, most often a text without quotes. Otherwise message says it.
func unquoted(text string, line int, message string) string {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return message
	}
	m := bare.FindStringSubmatch(lines[line-1])
	if m == nil || m[2] == "true" || m[2] == "false" {
		return message
	}
	if _, err := strconv.ParseFloat(m[2], 64); err == nil {
		return message
	}
	return fmt.Sprintf("write text and durations in quotes: %s = %q", m[1], m[2])
}

// lineOf is the line in which a setting, or a table of settings, begins.
func lineOf(text, key string) int {
	begins := regexp.MustCompile(`(?m)^[ \t]*\[*[ \t]*["']?` + regexp.QuoteMeta(key) + `["']?[ \t]*[.=\]]`)
	at := begins.FindStringIndex(text)
	if at == nil {
		return 1
	}
	return 1 + strings.Count(text[:at[0]], "\n")
}

// plain turns a value into what the flag would be given.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case string, bool:
		return v, nil
	case int64, float64:
		return fmt.Sprint(v), nil
	case []any:
		for _, e := range v {
			if _, ok := e.(string); !ok {
				return nil, errors.New("give a list of texts")
			}
		}
		return v, nil
	}
	return nil, errors.New("give a text, a number, true or false, or a list of texts")
}

// isSetting reports whether a flag may stand in the file: it has an environment variable ([onlySettings]), and is
// not the one that names the file.
func isSetting(f *kong.Flag) bool { return len(f.Envs) > 0 && f.Name != "config" }

// flagNames are the flags of a command and those below it that are settings.
func flagNames(n *kong.Node) []string {
	var names []string
	for _, f := range n.Flags {
		if isSetting(f) {
			names = append(names, f.Name)
		}
	}
	for _, child := range n.Children {
		names = append(names, flagNames(child)...)
	}
	return names
}

// Validate implements kong.Resolver.
func (s settings) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver: it says what the file has for a flag. The
// environment counts for more, and kong has read it already.
func (s settings) Resolve(_ *kong.Context, _ *kong.Path, f *kong.Flag) (any, error) {
	for _, e := range f.Envs {
		if _, ok := os.LookupEnv(e); ok {
			return nil, nil
		}
	}
	v, ok := s.values[f.Name]
	if !ok || !isSetting(f) {
		return nil, nil
	}
	if _, list := v.([]any); list && !f.IsSlice() {
		return nil, fmt.Errorf("settings: %s: give one value, not a list", s.file)
	}
	// kong would not say which file a value that it cannot read is in.
	trial := reflect.New(f.Target.Type()).Elem()
	if err := f.Parse(kong.Scan().PushTyped(v, kong.FlagValueToken), trial); err != nil {
		return nil, fmt.Errorf("settings: %s: %s: %s", s.file, f.Name, plainValue(strings.TrimPrefix(err.Error(), f.ShortSummary()+": ")))
	}
	return v, nil
}
