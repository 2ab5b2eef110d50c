// Package locale writes what the pages say in the language of their reader.
//
// A text is written in English where it is used: in a template, {{t "Needs attention"}}, or in Go, Say("Needs attention").
// The English text is at the same time the key of its translations. Each language has a file, such as de.json, which maps
// the English texts to its own. A text with a number of things has several forms, one for each plural category of CLDR that
// the language has; English has such forms in en.json:
//
//	"%d items": {"one": "%d item", "other": "%d items"}
//
// golang.org/x/text writes numbers and chooses forms. The first argument decides the form. A translation can change the
// order of the arguments with %[2]s.
//
// A new language is a new file: copy de.json, translate it, and add the language to names. A test reports texts that a
// language lacks, translations of texts that nothing uses, and translations whose arguments or HTML elements differ from those of
// the English text:
//
//	go test ./internal/locale           # says what is missing
//	go test ./internal/locale -update   # adds what is missing, without a translation, and removes what nothing uses
//
// Logs, the output of commands, and the errors of the network and of web servers are English. Pages show such errors unchanged.
package locale

import (
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"strings"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/message/catalog"
)

//go:embed *.json
var files embed.FS

// names holds the languages, by tag and own name. The first one is the language of readers whose language is unknown.
var names = []struct{ tag, name string }{{"en", "English"}, {"de", "Deutsch"}}

// A Text is a text in English, a format of package fmt, followed by its arguments. It is empty if there is nothing to say.
type Text []any

// Key marks an English text that another function gives to [Say], so that the catalogue has it.
func Key(format string) string { return format }

// Say returns a text with its arguments. An argument can be a Text itself.
func Say(format string, arguments ...any) Text { return append(Text{format}, arguments...) }

// Verbatim returns a text that is the same in every language, such as the title of a feed, even if the catalogue has the same
// words.
func Verbatim(text string) Text {
	if text == "" {
		return nil
	}
	return Text{"%s", text}
}

// String returns the text in English.
func (t Text) String() string { return English.Text(t) }

// MarshalText writes the text in English, for programs.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a text that a program has got. It has no arguments any more.
func (t *Text) UnmarshalText(text []byte) error {
	if *t = nil; len(text) > 0 {
		*t = Text{string(text)}
	}
	return nil
}

// A Language writes texts in one language. Its methods may be used at the same time.
type Language struct {
	Tag  string // BCP 47
	Name string // in the language itself

	printer *message.Printer
	plain   map[string]string // the texts without arguments, which may contain percent signs
	marked  bool              // by the signs of Pseudo
}

// English is the language of commands and logs.
var English = load(names[0].tag, names[0].name)

// Load reads all languages. The first one is English. It takes some milliseconds, which programs without pages save.
func Load() []*Language {
	all := []*Language{English}
	for _, n := range names[1:] {
		all = append(all, load(n.tag, n.name))
	}
	return all
}

// matcher finds the best language for what a browser accepts.
var matcher = language.NewMatcher(tags())

func tags() (all []language.Tag) {
	for _, n := range names {
		all = append(all, language.MustParse(n.tag))
	}
	return all
}

// Pseudo is a language for developers, whose texts are the English ones between ⟦ and ⟧. A text without these signs on a
// page of it cannot be translated.
var Pseudo = &Language{Tag: "qps-ploc", Name: "Pseudo", printer: English.printer, plain: English.plain, marked: true}

// Match returns the language of all that a person has chosen by its tag, or else the best one for the Accept-Language header of
// a browser.
func Match(all []*Language, chosen, accepted string) *Language {
	if chosen == Pseudo.Tag {
		return Pseudo
	}
	for _, l := range all {
		if l.Tag == chosen {
			return l
		}
	}
	wanted, _, _ := language.ParseAcceptLanguage(accepted) // a malformed header wants nothing
	_, i, _ := matcher.Match(wanted...)
	return all[i]
}

// forms holds the forms of a text by the names of plural categories. A text with one form has only the category "other".
type forms map[string]string

// UnmarshalJSON reads a text, or an object that holds a text for each plural category.
func (f *forms) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*f = forms{"other": one}
		return nil
	}
	var several map[string]string
	err := json.Unmarshal(b, &several)
	*f = several
	return err
}

// load reads a language. The files are a part of the program, so it panics at a fault.
func load(tag, name string) *Language {
	l, texts := &Language{Tag: tag, Name: name, plain: map[string]string{}}, catalog.NewBuilder()
	parsed := language.MustParse(tag)
	for key, f := range read(tag) {
		l.plain[key] = f["other"]
		if err := texts.Set(parsed, key, f.message()); err != nil {
			panic(fmt.Sprintf("%s.json: %q: %v", tag, key, err))
		}
	}
	l.printer = message.NewPrinter(parsed, message.Catalog(texts))
	return l
}

// read returns the texts of a language by their English texts.
func read(tag string) map[string]forms {
	content, err := files.ReadFile(tag + ".json")
	var texts map[string]forms
	if err == nil {
		err = json.Unmarshal(content, &texts)
	}
	if err != nil {
		panic(fmt.Sprintf("%s.json: %v", tag, err))
	}
	return texts
}

// message returns the forms as golang.org/x/text expects them.
func (f forms) message() catalog.Message {
	if len(f) == 1 {
		return catalog.String(f["other"])
	}
	var cases []any
	for category, text := range f { // a name that the language lacks is an error of Set
		if category != "other" {
			cases = append(cases, category, text)
		}
	}
	return plural.Selectf(1, "%d", append(cases, "other", f["other"])...)
}

// Format returns the format of a text with a number, for scripts of pages, which put the number in the place of %d.
func (l *Language) Format(key string) string {
	if text := l.plain[key]; text != "" {
		key = text
	}
	return l.mark(key)
}

// Text writes a text.
func (l *Language) Text(t Text) string {
	if len(t) == 0 {
		return ""
	}
	return l.mark(l.write(t[0].(string), t[1:], func(argument any) any {
		if inner, ok := argument.(Text); ok {
			return l.Text(inner)
		}
		return argument
	}))
}

// Say writes a text with its arguments.
func (l *Language) Say(format string, arguments ...any) string {
	return l.Text(Say(format, arguments...))
}

// HTML writes a text that contains elements of HTML. It escapes the arguments, except for those of type [template.HTML].
func (l *Language) HTML(format string, arguments ...any) template.HTML {
	return template.HTML(l.mark(l.write(format, arguments, func(argument any) any {
		switch a := argument.(type) {
		case template.HTML:
			return string(a)
		case Text:
			return html.EscapeString(l.Text(a))
		case int, int32, int64, uint, uint32, uint64, float64:
			return a // a number chooses the form of the text
		}
		return html.EscapeString(fmt.Sprint(argument))
	})))
}

// write writes a text with arguments that convert has prepared.
func (l *Language) write(format string, arguments []any, convert func(any) any) string {
	if len(arguments) == 0 {
		if text := l.plain[format]; text != "" {
			return text
		}
		return format
	}
	converted := make([]any, len(arguments))
	for i, a := range arguments {
		converted[i] = convert(a)
	}
	return l.printer.Sprintf(format, converted...)
}

// mark encloses a text of the pseudo-language.
func (l *Language) mark(text string) string {
	if !l.marked || strings.TrimSpace(text) == "" {
		return text
	}
	return "⟦" + text + "⟧"
}
