package locale

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template/parse"
	"unicode"

	"golang.org/x/net/html"
)

var update = flag.Bool("update", false, "write the files of all languages anew")

// root is the folder of the project.
const root = "../.."

// Every text that the pages use has a translation into every language, and there are no others.
func TestEveryTextIsTranslated(t *testing.T) {
	used := map[string]bool{}
	for _, folder := range []string{"proxy", "internal/daemon", "cmd"} {
		collect(t, filepath.Join(root, folder), used)
	}
	for _, l := range Load() {
		texts := read(l.Tag)
		if *update {
			rewrite(t, l, texts, used)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(used)) {
			if texts[key]["other"] == "" && l != English {
				t.Errorf("%s.json lacks %q", l.Tag, key)
			}
		}
		for key, forms := range texts {
			if !used[key] {
				t.Errorf("%s.json has %q, which nothing uses", l.Tag, key)
			}
			for category, text := range forms {
				if text != "" && (argumentsOf(text) != argumentsOf(key) && category == "other" || elementsOf(text) != elementsOf(key)) {
					t.Errorf("%s.json: the arguments or elements of %q are not those of %q", l.Tag, text, key)
				}
			}
			if (len(read("en")[key]) > 1) != (len(forms) > 1) {
				t.Errorf("%s.json: %q has %d forms, and in English %d", l.Tag, key, len(forms), len(read("en")[key]))
			}
		}
	}
}

// rewrite adds the texts that a language lacks, without a translation, and removes those that nothing uses.
func rewrite(t *testing.T, l *Language, texts map[string]forms, used map[string]bool) {
	out := map[string]any{}
	for key, f := range texts {
		if used[key] {
			out[key] = map[string]string(f)
			if len(f) == 1 {
				out[key] = f["other"]
			}
		}
	}
	for key := range used {
		if l != English && out[key] == nil {
			out[key] = ""
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	if err := e.Encode(out); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.Tag+".json", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	verb    = regexp.MustCompile(`%(?:\[(\d+)\])?[-+# 0]*[\d.]*([a-zA-Z%])`)
	element = regexp.MustCompile(`<[^>]*>`)
)

// argumentsOf returns the verbs of a format by the numbers of their arguments.
func argumentsOf(format string) string {
	verbs, at := map[int]string{}, 0
	for _, m := range verb.FindAllStringSubmatch(format, -1) {
		if m[2] == "%" {
			continue
		}
		if at++; m[1] != "" {
			at, _ = strconv.Atoi(m[1])
		}
		verbs[at] = m[2]
	}
	var all []string
	for _, n := range slices.Sorted(maps.Keys(verbs)) {
		all = append(all, strconv.Itoa(n)+verbs[n])
	}
	return strings.Join(all, " ")
}

// elementsOf returns the tags of a text in some order.
func elementsOf(text string) string {
	all := element.FindAllString(text, -1)
	slices.Sort(all)
	return strings.Join(all, "")
}

// collect finds the texts in the templates and the Go files of a folder.
func collect(t *testing.T, folder string, used map[string]bool) {
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "testdata" || d.Name() == "node_modules":
			return filepath.SkipDir
		case strings.HasSuffix(path, ".html"):
			return collectTemplate(path, used)
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			return collectGo(t, path, used)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// collectGo finds the texts that a Go file gives to Say, Key, HTML, or to refuse, which makes an error of a page.
func collectGo(t *testing.T, path string, used map[string]bool) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		at, name := 0, ""
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			x, _ := f.X.(*ast.Ident)
			if name = f.Sel.Name; x == nil || name == "HTML" && x.Name == "template" || name == "Key" && x.Name != "locale" {
				return true
			}
		case *ast.Ident:
			name = f.Name
		}
		switch name {
		case "Say", "Key", "HTML":
		case "refuse":
			at = 1
		default:
			return true
		}
		if at >= len(call.Args) {
			return true
		}
		if text, ok := literal(call.Args[at]); ok {
			use(text, used)
		} else if name == "Key" {
			t.Errorf("%s: the argument of Key is no literal", files.Position(call.Pos()))
		}
		return true
	})
	return nil
}

// use notes that a text is used, unless it has no words.
func use(text string, used map[string]bool) {
	if strings.ContainsFunc(verb.ReplaceAllString(text, ""), unicode.IsLetter) {
		used[text] = true
	}
}

// literal returns the value of a string that the source has as it is, or as a sum of strings.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		x, isX := literal(e.X)
		y, isY := literal(e.Y)
		return x + y, isX && isY
	}
	return "", false
}

// collectTemplate finds the texts that a template gives to its functions t and th.
func collectTemplate(path string, used map[string]bool) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	trees := map[string]*parse.Tree{}
	main := parse.New(path)
	main.Mode = parse.SkipFuncCheck
	if _, err := main.Parse(string(content), "", "", trees); err != nil {
		return err
	}
	for _, tree := range trees {
		inspect(tree.Root, used)
	}
	return nil
}

func inspect(n parse.Node, used map[string]bool) {
	branch := func(b *parse.BranchNode) {
		inspect(b.Pipe, used)
		inspect(b.List, used)
		if b.ElseList != nil {
			inspect(b.ElseList, used)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, inner := range n.Nodes {
			inspect(inner, used)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.ActionNode:
		inspect(n.Pipe, used)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			inspect(n.Pipe, used)
		}
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			inspect(c, used)
		}
	case *parse.CommandNode:
		if f, ok := n.Args[0].(*parse.IdentifierNode); ok && len(n.Args) > 1 && (f.Ident == "t" || f.Ident == "th") {
			if text, ok := n.Args[1].(*parse.StringNode); ok {
				use(text.Text, used)
			}
		}
		for _, a := range n.Args {
			inspect(a, used)
		}
	}
}

// A translation is a part of a page, so its elements have to be closed.
func TestTheElementsOfTextsAreClosed(t *testing.T) {
	for _, l := range Load() {
		for key, forms := range read(l.Tag) {
			for _, text := range forms {
				open := 0
				z := html.NewTokenizer(strings.NewReader(text))
				for z.Next() != html.ErrorToken {
					switch z.Token().Type {
					case html.StartTagToken:
						open++
					case html.EndTagToken:
						open--
					}
				}
				if strings.Contains(key, "</") && open != 0 {
					t.Errorf("%s.json: an element of %q is not closed", l.Tag, text)
				}
			}
		}
	}
}
