package main

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// misused says in plain words what is wrong with a command line. Kong's errors are texts, so those of its texts that a
// person would not understand are recognised by their form.
func misused(err error) error {
	p, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return err
	}
	node := p.Context.Selected()
	if node == nil {
		node = p.Context.Model.Node
	}
	text := plainValue(p.Error())
	if m := unexpected.FindStringSubmatch(text); m != nil {
		if len(node.Children) > 0 {
			return reworded{fmt.Sprintf("unknown command %q%s", m[1], meant(m[2])), err}
		}
		return reworded{fmt.Sprintf("unexpected argument %q", m[1]), err}
	}
	if m := unknownFlag.FindStringSubmatch(text); m != nil {
		return reworded{unknown(node, p.Context.Args, m[1], m[2]), err}
	}
	if m := noValue.FindStringSubmatch(text); m != nil {
		if m[2] == "EOL" {
			return reworded{m[1] + " needs a value", err}
		}
		return reworded{fmt.Sprintf("%s needs a value; if %q is the value, write %[1]s=%[2]q", m[1], m[2]), err}
	}
	if of, ok := strings.CutPrefix(text, "expected one of "); ok {
		return reworded{"give one of the commands " + of, err}
	}
	if text != p.Error() {
		return reworded{text, err}
	}
	return missing(node, err)
}

// plainValue rewrites what kong says of a value that cannot be read.
func plainValue(text string) string {
	text = noBool.ReplaceAllString(text, "$1 is neither true nor false; write true or false")
	text = fromVariable.ReplaceAllString(text, " (environment variable $1)")
	if m := noChoice.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s %s: give %s", m[1], m[3], strings.NewReplacer(`"`, "", ",", ", ").Replace(m[2]))
	}
	return text
}

// Texts of kong. A suggestion is one name in quotes, or several of them.
var (
	unexpected   = regexp.MustCompile(`(?s)^unexpected argument (.*?)(?:, did you mean (?:one of )?(.+)\?)?$`)
	unknownFlag  = regexp.MustCompile(`(?s)^unknown flag (.*?)(?:, did you mean (?:one of )?(.+)\?)?$`)
	noBool       = regexp.MustCompile(`bool value must be true, 1, yes, false, 0 or no but got ("(?:[^"\\]|\\.)*")`)
	fromVariable = regexp.MustCompile(`(?s) \(from envar (\w+)=".*"\)$`)
	noChoice     = regexp.MustCompile(`(?s)^(--[a-z-]+) must be one of (.*) but got (".*")$`)
	noValue      = regexp.MustCompile(`(?s)^(--[a-z-]+): expected \S+ value but got "(.*?)" \(.*$`)
)

// A reworded error has a text of ours in place of kong's.
type reworded struct {
	text  string
	cause error
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.cause }

// meant asks about the names that kong suggests; there may be none.
func meant(names string) string {
	if names == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", strings.ReplaceAll(names, ", ", " or "))
}

// unknown says what to do about a flag that a command does not have. Kong takes the -solar of a query for the flags -s, -o
// and so on, names the first, and finds every other flag of one letter similar.
func unknown(node *kong.Node, args []string, flag, similar string) string {
	if strings.HasPrefix(flag, "--") {
		return fmt.Sprintf("unknown flag %s%s", flag, meant(similar))
	}
	i := slices.IndexFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, flag[1:])
	})
	if i >= 0 {
		flag = args[i]
	}
	text := "unknown flag " + flag
	if len(node.Positional) > 0 && node.Positional[0].Name == "query" {
		text += fmt.Sprintf("; if it belongs to the query, put the query behind --, as in tidings %s -- '%s'", node.Path(), flag)
	}
	return text
}

// missing says which argument a command lacks. Kong says: expected "<url> ...".
func missing(node *kong.Node, err error) error {
	if !strings.HasPrefix(err.Error(), `expected "<`) || len(node.Positional) == 0 {
		return err
	}
	name := node.Positional[0].Name
	if which[name] == "" {
		return err
	}
	return reworded{fmt.Sprintf("%s tidings %s %s", which[name], node.Path(), strings.ToUpper(name)), err}
}

// which asks for arguments, by their names.
var which = map[string]string{"url": "which address?", "query": "which query?", "file": "which file?"}

// numbers has kong read numbers and durations with errors in plain words.
func numbers() []kong.Option {
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), mapper(readDuration)),
		kong.KindMapper(reflect.Int, mapper(func(s string) (int, error) {
			n, err := strconv.Atoi(s)
			if err != nil {
				return 0, fmt.Errorf("%q is not a whole number", s)
			}
			return n, nil
		})),
		kong.KindMapper(reflect.Float64, mapper(func(s string) (float64, error) {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return 0, fmt.Errorf("%q is not a number", s)
			}
			return x, nil
		})),
	}
}

// mapper reads the text of a value.
func mapper[T any](read func(string) (T, error)) kong.MapperFunc {
	return func(c *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := c.Scan.PopValueInto(c.Value.Name, &text); err != nil {
			return err
		}
		v, err := read(text)
		if err == nil {
			target.Set(reflect.ValueOf(v).Convert(target.Type()))
		}
		return err
	}
}

// readDuration reads a duration such as 5m. A number alone most often lacks its unit.
func readDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch _, number := strconv.ParseFloat(text, 64); {
	case err == nil:
		return d, nil
	case number == nil:
		return 0, fmt.Errorf("%s has no unit; write %[1]sm or %[1]ss", text)
	}
	return 0, fmt.Errorf("%q is not a duration; write one such as 30s, 5m or 1h30m", text)
}
