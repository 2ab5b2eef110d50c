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

// explainUsage explains in plain words what is wrong with a command line. Kong's errors are only texts, so those
// that people would not understand are recognised by their form.
func explainUsage(err error) error {
	p, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return err
	}
	node := p.Context.Selected()
	if node == nil {
		node = p.Context.Model.Node
	}
	text := plainValue(p.Error())
	if m := unexpectedArgument.FindStringSubmatch(text); m != nil {
		if len(node.Children) > 0 {
			return reworded{fmt.Sprintf("unknown command %q%s", m[1], didYouMean(m[2])), err}
		}
		return reworded{fmt.Sprintf("unexpected argument %q", m[1]), err}
	}
	if m := unknownFlag.FindStringSubmatch(text); m != nil {
		return reworded{unknownFlagText(node, p.Context.Args, m[1], m[2]), err}
	}
	if m := missingValue.FindStringSubmatch(text); m != nil {
		if m[2] == "EOL" {
			return reworded{m[1] + " needs a value", err}
		}
		return reworded{fmt.Sprintf("%s needs a value; if %q is the value, write %[1]s=%[2]q", m[1], m[2]), err}
	}
	if commands, ok := strings.CutPrefix(text, "expected one of "); ok {
		return reworded{"give one of the commands " + commands, err}
	}
	if text != p.Error() {
		return reworded{text, err}
	}
	return missingArgument(node, err)
}

// plainValue rewrites kong's message about an invalid value.
func plainValue(text string) string {
	text = badBool.ReplaceAllString(text, "$1 is neither true nor false; write true or false")
	text = fromVariable.ReplaceAllString(text, " (environment variable $1)")
	if m := badChoice.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s %s: give %s", m[1], m[3], strings.NewReplacer(`"`, "", ",", ", ").Replace(m[2]))
	}
	return text
}

// Texts of kong. A suggestion consists of one or more names in quotes.
var (
	unexpectedArgument = regexp.MustCompile(`(?s)^unexpected argument (.*?)(?:, did you mean (?:one of )?(.+)\?)?$`)
	unknownFlag        = regexp.MustCompile(`(?s)^unknown flag (.*?)(?:, did you mean (?:one of )?(.+)\?)?$`)
	badBool            = regexp.MustCompile(`bool value must be true, 1, yes, false, 0 or no but got ("(?:[^"\\]|\\.)*")`)
	fromVariable       = regexp.MustCompile(`(?s) \(from envar (\w+)=".*"\)$`)
	badChoice          = regexp.MustCompile(`(?s)^(--[a-z-]+) must be one of (.*) but got (".*")$`)
	missingValue       = regexp.MustCompile(`(?s)^(--[a-z-]+): expected \S+ value but got "(.*?)" \(.*$`)
)

// A reworded error replaces the text of kong's error.
type reworded struct {
	text  string
	cause error
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.cause }

// didYouMean asks about the names that kong suggests. There may be none.
func didYouMean(names string) string {
	if names == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", strings.ReplaceAll(names, ", ", " or "))
}

// unknownFlagText explains a flag that a command does not have. Kong reads -solar in a query as the flags -s, -o
// and so on, names only the first, and suggests every other flag of one letter.
func unknownFlagText(node *kong.Node, args []string, flag, similar string) string {
	if strings.HasPrefix(flag, "--") {
		return fmt.Sprintf("unknown flag %s%s", flag, didYouMean(similar))
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

// missingArgument says which argument a command lacks. Kong's text is: expected "<url> ...".
func missingArgument(node *kong.Node, err error) error {
	if !strings.HasPrefix(err.Error(), `expected "<`) || len(node.Positional) == 0 {
		return err
	}
	name := node.Positional[0].Name
	if argumentQuestions[name] == "" {
		return err
	}
	return reworded{fmt.Sprintf("%s tidings %s %s", argumentQuestions[name], node.Path(), strings.ToUpper(name)), err}
}

// argumentQuestions asks for arguments, by their names.
var argumentQuestions = map[string]string{"url": "which address?", "query": "which query?", "file": "which file?"}

// numberMappers makes kong parse numbers and durations with plain error texts.
func numberMappers() []kong.Option {
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

// mapper converts a parser of texts to a kong mapper.
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

// readDuration parses a duration such as 5m. A number without a unit gets its own error.
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
