package charset

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/text/encoding/htmlindex"
)

// encodedAs returns a text in a charset.
func encodedAs(t *testing.T, name, text string) string {
	t.Helper()
	enc, err := htmlindex.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := enc.NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBytesOverruleLabels(t *testing.T) {
	const german, russian, japanese = "Größe und Maße für alle", "Правила пользования сайтом для всех", "利用規約とプライバシーポリシーをお読みください"
	for _, c := range []struct {
		doc   string
		says  []string
		want  string
		wrong bool
	}{
		{"plain", nil, "plain", false},
		{german, nil, german, false},
		{"\xef\xbb\xbf" + german, []string{"iso-8859-1"}, german, false},
		{german, []string{"iso-8859-1"}, german, true},
		{encodedAs(t, "windows-1252", german), nil, german, true},
		{encodedAs(t, "windows-1252", german), []string{"", "latin1"}, german, false},
		{encodedAs(t, "windows-1252", german), []string{"utf-8"}, german, true},
		{encodedAs(t, "windows-1251", russian), []string{"windows-1251"}, russian, false},
		{encodedAs(t, "windows-1251", russian), []string{"utf-8", "windows-1251"}, russian, true},
		{encodedAs(t, "shift_jis", japanese), []string{"shift_jis"}, japanese, false},
		{encodedAs(t, "shift_jis", japanese), []string{"no such", "", "shift_jis"}, japanese, false},
		{"\xff\xfe<\x00p\x00>\x00", []string{"utf-8"}, "<p>", false},
		{german[:len(german)-5] + "\xc3", nil, german[:len(german)-5] + "\xc3", false},
	} {
		out, wrong, err := UTF8([]byte(c.doc), 1<<20, c.says...)
		if err != nil || string(out) != c.want || wrong != c.wrong {
			t.Errorf("%q, said to be %q: %q, wrong: %v, %v", c.doc, c.says, out, wrong, err)
		}
	}
	if _, _, err := UTF8([]byte(encodedAs(t, "windows-1251", russian)), 1<<20, "utf-8"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	for _, doc := range []string{strings.Repeat("a", 101), encodedAs(t, "windows-1252", strings.Repeat("aß", 40))} {
		if _, _, err := UTF8([]byte(doc), 100); !errors.Is(err, ErrLarge) {
			t.Errorf("%d bytes: %v", len(doc), err)
		}
	}
}
