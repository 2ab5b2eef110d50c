package proxy

import (
	"bytes"
	"html/template"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"tidings/internal/locale"
)

// A hunk is a part of a page that has changed: the line before it, and its lines before and after the change. The lines are
// sanitised HTML.
type hunk struct {
	Context       []template.HTML
	Before, After []template.HTML
}

// changesOf returns the changes in the content of an item that shows the change of a page (difference/page/entry.go): lines
// in <del> and <ins>, lines around them, and <hr> between hunks. It returns nil for other contents.
func changesOf(content template.HTML) (hunks []hunk) {
	nodes, err := html.ParseFragment(strings.NewReader(string(content)), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		return nil
	}
	current, changed := hunk{}, false
	end := func() {
		if len(current.Context)+len(current.Before)+len(current.After) > 0 {
			hunks = append(hunks, current)
		}
		current = hunk{}
	}
	for _, n := range nodes {
		switch {
		case n.Type == html.TextNode && strings.TrimSpace(n.Data) == "":
		case n.DataAtom == atom.Hr:
			end()
		case n.DataAtom != atom.P:
			return nil // a content of another kind
		case child(n, atom.Del) != nil:
			current.Before, changed = append(current.Before, inner(child(n, atom.Del))), true
		case child(n, atom.Ins) != nil:
			current.After, changed = append(current.After, inner(child(n, atom.Ins))), true
		default:
			if len(current.Before)+len(current.After) > 0 {
				end()
			}
			current.Context = append(current.Context, inner(n))
		}
	}
	if end(); !changed {
		return nil
	}
	return hunks
}

// child returns the child of a node with a name, or nil.
func child(n *html.Node, name atom.Atom) *html.Node {
	for c := range n.ChildNodes() {
		if c.DataAtom == name {
			return c
		}
	}
	return nil
}

// inner returns what a node of sanitised HTML contains.
func inner(n *html.Node) template.HTML {
	var b bytes.Buffer
	for c := range n.ChildNodes() {
		if html.Render(&b, c) != nil { // only what was not parsed cannot be rendered
			return ""
		}
	}
	return template.HTML(b.String())
}

// replaceImages puts links in the places of images, with what is to be read in place of them. A page that loaded them would
// tell their servers who reads.
func replaceImages(l *locale.Language, root *html.Node) {
	var images []*html.Node
	for n := range root.Descendants() {
		if n.DataAtom == atom.Img {
			images = append(images, n)
		}
	}
	for _, n := range images {
		text, source := l.Say("Image"), ""
		for _, a := range n.Attr {
			switch a.Key {
			case "alt":
				if alt := strings.TrimSpace(a.Val); alt != "" {
					text = l.Say("Image: %s", alt)
				}
			case "src":
				source = a.Val
			}
		}
		label := &html.Node{Type: html.TextNode, Data: text}
		linked := false
		for p := range n.Ancestors() {
			linked = linked || p.DataAtom == atom.A
		}
		if source != "" && !linked {
			link := &html.Node{Type: html.ElementNode, Data: "a", DataAtom: atom.A, Attr: []html.Attribute{{Key: "href", Val: source}}}
			link.AppendChild(label)
			label = link
		}
		n.Parent.InsertBefore(label, n)
		n.Parent.RemoveChild(n)
	}
}
