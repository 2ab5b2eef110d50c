package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"tidings/internal/wire/wirepb"
)

// shake performs a handshake between two sides.
func shake(dialler, other Side) (version uint32, descriptor []byte, dialled, answered error) {
	reply, agreed, answered := other.Answer(dialler.Hello())
	version, descriptor, dialled = dialler.CheckReply(reply)
	if answered == nil && dialled == nil && version != agreed {
		panic("two versions agreed upon")
	}
	return version, descriptor, dialled, answered
}

func TestHandshake(t *testing.T) {
	home := DefaultNetwork("home").Descriptor()
	away := DefaultNetwork("away").Descriptor()
	slow := DefaultNetwork("home")
	slow.PollInterval *= 2
	member := Side{Name: "home", Descriptor: home}
	speaks := func(low, high uint32) Side { s := member; s.MinVersion, s.MaxVersion = low, high; return s }
	for _, c := range []struct {
		name           string
		dialler, other Side
		version        uint32
		reason         wirepb.Refusal_Reason
		words          string // in what the dialler's operator reads
	}{
		{"two members", member, member, Version, 0, ""},
		{"who knows the name", Side{Name: "home"}, member, Version, 0, ""},
		{"who knows only an address", Side{}, member, Version, 0, ""},
		{"who knows only the descriptor", Side{Descriptor: home}, Side{Descriptor: home}, Version, 0, ""},

		{"newest of both", speaks(1, 3), speaks(2, 5), 3, 0, ""},
		{"newest of both, other way", speaks(2, 5), speaks(1, 3), 3, 0, ""},
		{"one in common", speaks(1, 2), speaks(2, 2), 2, 0, ""},
		{"too old", speaks(1, 2), speaks(3, 4), 0, wirepb.Refusal_VERSION, "the dialled node speaks 3 to 4, and the dialling one 1 to 2"},
		{"too new", speaks(3, 4), speaks(1, 2), 0, wirepb.Refusal_VERSION, "the dialled node speaks 1 to 2, and the dialling one 3 to 4"},
		{"no range", speaks(4, 1), speaks(1, 9), 0, wirepb.Refusal_VERSION, "the dialling one 4 to 1"},

		{"another name", Side{Name: "away"}, member, 0, wirepb.Refusal_NETWORK, `is in network "home", and the node that asks wants "away"`},
		{"another network", Side{Name: "away", Descriptor: away}, member, 0, wirepb.Refusal_NETWORK, `"home", and the node that asks wants "away"`},
		{"another network by descriptor", Side{Descriptor: away}, member, 0, wirepb.Refusal_NETWORK, `"home", and the node that asks wants "away"`},
		{"another network at the other end", member, Side{Descriptor: away}, 0, wirepb.Refusal_NETWORK, `"away", and the node that asks wants "home"`},
		{"other settings", Side{Name: "home", Descriptor: slow.Descriptor()}, member, 0, wirepb.Refusal_NETWORK,
			`network "home" has other settings at the other node: the settings that tidings status shows must be the same`},

		{"who is joining itself", member, Side{Name: "home"}, 0, wirepb.Refusal_BUSY, "try again"},
		{"two who join", Side{Name: "home"}, Side{}, 0, wirepb.Refusal_BUSY, "try again"},
		{"who will never fit", Side{Name: "away"}, Side{Name: "home"}, 0, wirepb.Refusal_NETWORK, `"home", and the node that asks wants "away"`},
	} {
		version, descriptor, dialled, answered := shake(c.dialler, c.other)
		if c.words == "" {
			if dialled != nil || answered != nil || version != c.version || !bytes.Equal(descriptor, home) {
				t.Errorf("%s: version %d, %v and %v", c.name, version, dialled, answered)
			}
			continue
		}
		for side, err := range map[string]error{"dialler": dialled, "other": answered} {
			refused, ok := errors.AsType[*RefusedError](err)
			if !ok || refused.Reason != c.reason || !strings.Contains(refused.Message, c.words) {
				t.Errorf("%s: the %s reads %v; want %s", c.name, side, err, c.words)
			}
		}
	}
}

// A dialler checks the other side's welcome.
func TestDiallerChecksTheWelcome(t *testing.T) {
	home := DefaultNetwork("home").Descriptor()
	slow := DefaultNetwork("home")
	slow.PollInterval *= 2
	welcome := func(version uint32, descriptor []byte) []byte {
		return Encode(&wirepb.Reply{Reply: &wirepb.Reply_Welcome{
			Welcome: &wirepb.Welcome{Version: version, Network: descriptor}}})
	}
	for _, c := range []struct {
		name  string
		side  Side
		reply []byte
		want  string
	}{
		{"a version not offered", Side{}, welcome(Version+1, home), fmt.Sprintf("this node speaks %d to %d", MinVersion, Version)},
		{"version 0", Side{}, welcome(0, home), fmt.Sprintf("this node speaks %d to %d", MinVersion, Version)},
		{"another name", Side{Name: "away"}, welcome(Version, home), `is in network "home", and the node that asks wants "away"`},
		{"another name by descriptor", Side{Descriptor: DefaultNetwork("away").Descriptor()}, welcome(Version, home), `wants "away"`},
		{"other settings", Side{Descriptor: home}, welcome(Version, slow.Descriptor()), `network "home" has other settings at the peer: poll-interval (here: 30m, there: 1h)`},
		{"no descriptor", Side{}, welcome(Version, nil), ErrDescriptor.Error()},
		{"nothing", Side{}, nil, ErrHello.Error()},
		{"garbage", Side{}, []byte("garbage"), ErrHello.Error()},
		{"over the limit", Side{}, field(welcome(Version, home), 100, make([]byte, MaxHello)), ErrHello.Error()},
	} {
		if _, _, err := c.side.CheckReply(c.reply); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.name, err, c.want)
		}
	}
}

func TestHelloOfGarbageHasNoReply(t *testing.T) {
	side := Side{Descriptor: DefaultNetwork("home").Descriptor()}
	for name, hello := range map[string][]byte{
		"garbage":        []byte("garbage"),
		"over the limit": field(side.Hello(), 100, make([]byte, MaxHello)),
		"no text":        field(nil, 4, []byte("\xff")),
	} {
		if reply, _, err := side.Answer(hello); !errors.Is(err, ErrHello) || reply != nil {
			t.Errorf("%s: %x, %v", name, reply, err)
		}
	}
}

// Text of another node ends up in a log and on a terminal.
func TestTextOfPeersIsSanitised(t *testing.T) {
	wild := "\x1b[2J\n\u009b2J\u202e" + strings.Repeat("世", 1000)
	member := Side{Name: "home", Descriptor: DefaultNetwork("home").Descriptor()}
	_, _, answered := member.Answer(Encode(&wirepb.Hello{MinVersion: MinVersion, MaxVersion: Version, Name: wild}))
	_, _, dialled := member.CheckReply(Encode(&wirepb.Reply{Reply: &wirepb.Reply_Refusal{
		Refusal: &wirepb.Refusal{Reason: 77, Message: wild}}}))
	for _, err := range []error{answered, dialled} {
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || !strings.Contains(refused.Message, "?[2J??2J?世世") {
			t.Fatalf("%v", err)
		}
		printable(t, refused.Message)
	}
}

func printable(t *testing.T, words string) {
	t.Helper()
	if n := utf8.RuneCountInString(words); n > 300 {
		t.Errorf("%d characters", n)
	}
	if i := strings.IndexFunc(words, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%q does not print at %d", words, i)
	}
}

func FuzzHello(f *testing.F) {
	member := Side{Name: "home", Descriptor: DefaultNetwork("home").Descriptor()}
	for _, s := range []Side{member, {}, {Name: "away"}, {MinVersion: 2, MaxVersion: 3}} {
		f.Add(s.Hello())
	}
	f.Fuzz(func(t *testing.T, hello []byte) {
		for _, side := range []Side{member, {Name: "home"}} {
			reply, version, err := side.Answer(hello)
			if len(reply) > MaxHello {
				t.Fatalf("reply of %d bytes", len(reply))
			}
			refused, isRefused := errors.AsType[*RefusedError](err)
			switch {
			case err == nil:
				got, descriptor, err := Side{}.CheckReply(reply)
				if err != nil || got != version || !bytes.Equal(descriptor, side.Descriptor) {
					t.Fatalf("welcome to version %d read as %d, %v", version, got, err)
				}
			case isRefused:
				printable(t, refused.Message)
				_, _, err := side.CheckReply(reply)
				if told, ok := errors.AsType[*RefusedError](err); !ok || told.Reason != refused.Reason {
					t.Fatalf("%v read as %v", refused, err)
				}
			case !errors.Is(err, ErrHello) || reply != nil:
				t.Fatalf("%v with a reply of %d bytes", err, len(reply))
			}
			var h wirepb.Hello
			if err == nil && (proto.Unmarshal(hello, &h) != nil || version < h.MinVersion || version > h.MaxVersion) {
				t.Fatalf("version %d for %v", version, &h)
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	home := Side{Name: "home", Descriptor: DefaultNetwork("home").Descriptor()}
	for _, dialler := range []Side{home, {Name: "away"}} {
		reply, _, _ := home.Answer(dialler.Hello())
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		for _, side := range []Side{home, {}} {
			version, descriptor, err := side.CheckReply(reply)
			if refused, ok := errors.AsType[*RefusedError](err); ok {
				printable(t, refused.Message)
			}
			if err != nil {
				continue
			}
			if version != Version {
				t.Fatalf("version %d", version)
			}
			if _, err := ParseDescriptor(descriptor); err != nil {
				t.Fatal(err)
			}
			if side.Descriptor != nil && !bytes.Equal(descriptor, side.Descriptor) {
				t.Fatal("another descriptor than its own")
			}
		}
	})
}
