package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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
	var file string
	for _, f := range c.Model.Flags {
		if f.Name == "config" {
			file = c.FlagValue(f).(string)
		}
	}
	named := file != ""
	if !named {
		file = configFile()
	}
	s, err := readSettings(file, named, flagNames(c.Model.Node))
	if err != nil {
		return err
	}
	c.AddResolver(s)
	return nil
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
		return s, fmt.Errorf("settings: %w", err)
	}
	if err := toml.Unmarshal(b, &s.values); err != nil {
		if at, ok := errors.AsType[toml.ParseError](err); ok {
			return s, fmt.Errorf("settings: %s, line %d: %s", file, at.Position.Line, at.Message)
		}
		return s, fmt.Errorf("settings: %s: %w", file, err)
	}
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if !slices.Contains(flags, key) {
			return s, fmt.Errorf("settings: %s: unknown setting %q", file, key)
		}
		if s.values[key], err = plain(s.values[key]); err != nil {
			return s, fmt.Errorf("settings: %s: %s: %w", file, key, err)
		}
	}
	return s, nil
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
		return nil, fmt.Errorf("settings: %s: %s", s.file, strings.TrimPrefix(err.Error(), f.ShortSummary()+": "))
	}
	return v, nil
}
