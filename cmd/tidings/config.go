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

	"tidings/proxy"
)

// configFile returns the default configuration file.
func configFile() string { return userPath(xdg.ConfigHome, "XDG_CONFIG_HOME", "config.toml") }

// dataDir returns the default data directory of a node.
func dataDir() string { return userPath(xdg.DataHome, "XDG_DATA_HOME") }

// accessDir returns the directory in which the nodes of this user leave their tokens for commands, by the address
// at which they serve. It depends only on the user's home, because nodes and commands may be started in different
// ways.
func accessDir() string { return userPath(xdg.StateHome, "XDG_STATE_HOME") }

// readerLists returns the usual places of the lists of other readers of this user.
func readerLists() (lists []proxy.ReaderList) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	return []proxy.ReaderList{
		{Program: "newsboat", Path: filepath.Join(xdg.ConfigHome, "newsboat", "urls")},
		{Program: "newsboat", Path: filepath.Join(home, ".newsboat", "urls")},
		{Program: "Liferea", Path: filepath.Join(xdg.ConfigHome, "liferea", "feedlist.opml")},
		{Program: "Liferea (Flatpak)", Path: filepath.Join(home, ".var/app/net.sourceforge.liferea/config/liferea/feedlist.opml")},
	}
}

// userPath returns a path of tidings below a directory of the user, which an environment variable may name. It
// returns "" if the directory would be in the user's home and the home is not known.
func userPath(dir, variable string, file ...string) string {
	if _, err := os.UserHomeDir(); err != nil && !filepath.IsAbs(os.Getenv(variable)) {
		return "" // package xdg would use / as the home
	}
	return filepath.Join(append([]string{dir, "tidings"}, file...)...)
}

// settings holds the values in a configuration file, by the names of flags.
type settings struct {
	file   string
	values map[string]any
}

// BeforeResolve is called by kong before it resolves the flags that were not given. It reads the configuration
// file.
func (g *grammar) BeforeResolve(c *kong.Context) error {
	file, named := settingsFile(c)
	s, err := readSettings(file, named, flagNames(c.Model.Node))
	if err != nil {
		return err
	}
	c.AddResolver(s)
	return nil
}

// settingsFile returns the configuration file, and whether the user named it.
func settingsFile(c *kong.Context) (file string, named bool) {
	for _, f := range c.Model.Flags {
		if f.Name == "config" {
			file = c.FlagValue(f).(string)
		}
	}
	return cmp.Or(file, configFile()), file != ""
}

// settingSource says where a setting was given.
func settingSource(c *kong.Context, f *kong.Flag) string {
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

// rejectMisspelt returns an error for an environment variable that is no setting but has nearly the name of one.
// Other unknown variables are ignored, because Kubernetes, for example, creates variables from the names of
// services.
func rejectMisspelt(n *kong.Node, environ []string) error {
	known := []string{"TIDINGS_PASSPHRASE"}
	for _, f := range allFlags(n) {
		known = append(known, f.Envs...)
	}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "TIDINGS_") || slices.Contains(known, name) {
			continue
		}
		if similar := similarName(name, known); similar != "" {
			return usagef("unknown environment variable %s; did you mean %s?", name, similar)
		}
	}
	return nil
}

// allFlags returns the flags of a command and its subcommands.
func allFlags(n *kong.Node) []*kong.Flag {
	flags := slices.Clone(n.Flags)
	for _, child := range n.Children {
		flags = append(flags, allFlags(child)...)
	}
	return flags
}

// similarName returns the known name that differs from a misspelt one by at most two letters, or "".
func similarName(name string, names []string) (best string) {
	bestDistance := 3
	for _, n := range names {
		if d := editDistance(name, n); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best
}

// editDistance returns how many letters must be inserted, deleted or replaced to turn one text into another.
func editDistance(a, b string) int {
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

// readSettings reads a configuration file. The file need not exist unless the user named it. A key that is no flag
// is an error, because it would have no effect.
func readSettings(file string, named bool, flags []string) (settings, error) {
	s := settings{file: file}
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return s, nil
	case err != nil:
		return s, fmt.Errorf("settings: %w", unreadableError(file, err))
	}
	if err := toml.Unmarshal(b, &s.values); err != nil {
		if at, ok := errors.AsType[toml.ParseError](err); ok {
			line := at.Position.Line
			return s, fmt.Errorf("settings: %s, line %d: %s", file, line, tomlErrorText(string(b), line, at.Message))
		}
		return s, fmt.Errorf("settings: %s: %w", file, err)
	}
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if !slices.Contains(flags, key) {
			near := similarName(key, flags)
			if near != "" {
				near = fmt.Sprintf("; did you mean %q?", near)
			}
			return s, fmt.Errorf("settings: %s, line %d: unknown setting %q%s", file, settingLine(string(b), key), key, near)
		}
		if s.values[key], err = flagValue(s.values[key]); err != nil {
			return s, fmt.Errorf("settings: %s: %s: %w", file, key, err)
		}
	}
	return s, nil
}

// unreadableError explains why a file that the user named cannot be read.
func unreadableError(file string, err error) error {
	at, ok := errors.AsType[*fs.PathError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot read %s: permission denied; run the command as a user who may read the file", file)
	}
	return fmt.Errorf("cannot read %s: %w; check the name of the file", file, at.Err)
}

// unquotedValue matches a setting whose value is neither in quotes nor a list.
var unquotedValue = regexp.MustCompile(`^\s*([a-z-]+)\s*=\s*([^\s"'\[{#][^"'#]*?)\s*(?:#.*)?$`)

// tomlErrorText explains an error in a line of TOML, most often a missing pair of quotes. It returns message if it
// finds no better explanation.
func tomlErrorText(text string, line int, message string) string {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return message
	}
	m := unquotedValue.FindStringSubmatch(lines[line-1])
	if m == nil || m[2] == "true" || m[2] == "false" {
		return message
	}
	if _, err := strconv.ParseFloat(m[2], 64); err == nil {
		return message
	}
	return fmt.Sprintf("write text and durations in quotes: %s = %q", m[1], m[2])
}

// settingLine returns the number of the line in which a setting, or a table of settings, begins.
func settingLine(text, key string) int {
	begins := regexp.MustCompile(`(?m)^[ \t]*\[*[ \t]*["']?` + regexp.QuoteMeta(key) + `["']?[ \t]*[.=\]]`)
	at := begins.FindStringIndex(text)
	if at == nil {
		return 1
	}
	return 1 + strings.Count(text[:at[0]], "\n")
}

// flagValue converts a TOML value to the value of a flag.
func flagValue(v any) (any, error) {
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

// isSetting reports whether a flag may be set in the file: it has an environment variable ([keepSettingEnvs]), and
// is not the flag that names the file.
func isSetting(f *kong.Flag) bool { return len(f.Envs) > 0 && f.Name != "config" }

// flagNames returns the flags of a command and its subcommands that are settings.
func flagNames(n *kong.Node) (names []string) {
	for _, f := range allFlags(n) {
		if isSetting(f) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Validate implements kong.Resolver.
func (s settings) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver. It returns the file's value for a flag. The environment takes precedence, and
// kong has already read it.
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
	// The value is parsed here, because kong's error would not name the file.
	trial := reflect.New(f.Target.Type()).Elem()
	if err := f.Parse(kong.Scan().PushTyped(v, kong.FlagValueToken), trial); err != nil {
		return nil, fmt.Errorf("settings: %s: %s: %s", s.file, f.Name, plainValue(strings.TrimPrefix(err.Error(), f.ShortSummary()+": ")))
	}
	return v, nil
}
