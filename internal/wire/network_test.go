package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"tidings/internal/wire/wirepb"
)

func TestDefaultNetworkIsValid(t *testing.T) {
	if err := DefaultNetwork("home").Check(); err != nil {
		t.Error(err)
	}
}

// TestDescriptorRoundTrip encodes and decodes parameters that Check accepts.
func TestDescriptorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		between := func(what string, low, high int) int { return rapid.IntRange(low, high).Draw(t, what) }
		one := func(what string) string { return rapid.SampledFrom(choices[what]).Draw(t, what) }
		seconds := func(what string, high time.Duration) time.Duration {
			return time.Duration(between(what, 1, int(high/time.Second))) * time.Second
		}
		n := Network{
			Name:                rapid.StringMatching(`[!-.0-~é世]{1,20}`).Draw(t, "name"),
			PollInterval:        seconds("poll interval", 24*time.Hour),
			MaintenanceInterval: seconds("maintenance interval", 24*time.Hour),
			BeatInterval:        seconds("beat interval", 7*24*time.Hour),
			Objective:           one("objective"),
			TargetDetection:     time.Duration(between("target", 1, 86_400_000)) * time.Millisecond,
			Load:                float64(between("load", 1, 1_000_000)) / 1000,
			Wedge:               one("wedge"),
			Clusters:            one("clusters"),
			Phases:              one("phases"),
			Decide:              one("decide"),
			Owners:              between("owners", 1, 8),
			MaxWeight:           between("weight", 1, 1<<20),
			LeafMerge:           between("merge", 8, 128),
			FanOut:              between("fan-out", 2, 256),
			PrivateAddresses:    rapid.Bool().Draw(t, "private"),
			IDs:                 one("ids"),
		}
		if n.IDs == CertificateIDs {
			n.Authorities = JoinAuthorities(rapid.SliceOfNDistinct(rapid.Map(rapid.SliceOfN(rapid.Byte(), 32, 32), func(b []byte) ed25519.PublicKey { return b }), 1, MaxAuthorities, func(k ed25519.PublicKey) string { return string(k) }).Draw(t, "authorities")...)
		}
		if n.Decide == "dag" {
			n.Wedge, n.Phases = rapid.SampledFrom([]string{"base16", "base2"}).Draw(t, "levels"), "random"
		}
		n.Witnesses = between("witnesses", 1, n.Owners)
		n.LeafSplit = between("split", n.LeafMerge+1, 256)
		if err := n.Check(); err != nil {
			t.Fatal(err)
		}
		b := n.Descriptor()
		got, err := ParseDescriptor(b)
		if err != nil || got != n {
			t.Fatalf("%+v came back as %+v, %v", n, got, err)
		}
		if again := got.Descriptor(); HashOf(again) != HashOf(b) {
			t.Fatalf("one network, two descriptors: %x, %x", b, again)
		}
	})
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		want  string
		wrong func(*Network)
	}{
		{"network name", func(n *Network) { n.Name = "" }},
		{"network name", func(n *Network) { n.Name = strings.Repeat("a", 65) }},
		{"network name", func(n *Network) { n.Name = "\xff" }},
		{"leave out spaces", func(n *Network) { n.Name = "a b" }},
		{"leave out spaces", func(n *Network) { n.Name = "a/b" }},
		{"leave out spaces", func(n *Network) { n.Name = "a\x1bb" }},
		{"leave out spaces", func(n *Network) { n.Name = "a\x7f" }},
		{"leave out spaces", func(n *Network) { n.Name = "a\u009bb" }}, // begins an escape sequence, as ESC [ does
		{"leave out spaces", func(n *Network) { n.Name = "a\u202eb" }}, // turns the text round
		{"leave out spaces", func(n *Network) { n.Name = "a\u00a0b" }}, // a space that does not break
		{"objective", func(n *Network) { n.Objective = "best" }},
		{"wedge", func(n *Network) { n.Wedge = "" }},
		{"clusters", func(n *Network) { n.Clusters = "Bins" }},
		{"phases", func(n *Network) { n.Phases = "odd" }},
		{"decide", func(n *Network) { n.Decide = "all" }},
		{"poll interval", func(n *Network) { n.PollInterval = 0 }},
		{"poll interval", func(n *Network) { n.PollInterval = -time.Second }},
		{"poll interval", func(n *Network) { n.PollInterval = 1500 * time.Millisecond }},
		{"poll interval", func(n *Network) { n.PollInterval = day + time.Second }},
		{"maintenance interval", func(n *Network) { n.MaintenanceInterval = 0 }},
		{"maintenance interval", func(n *Network) { n.MaintenanceInterval = day + time.Second }},
		{"beat interval", func(n *Network) { n.BeatInterval = 0 }},
		{"beat interval", func(n *Network) { n.BeatInterval = 7*day + time.Second }},
		{"target detection", func(n *Network) { n.TargetDetection = 0 }},
		{"target detection", func(n *Network) { n.TargetDetection = time.Microsecond }},
		{"target detection", func(n *Network) { n.TargetDetection = day + time.Millisecond }},
		{"load", func(n *Network) { n.Load = 0 }},
		{"load", func(n *Network) { n.Load = 0.0004 }},
		{"load", func(n *Network) { n.Load = -1 }},
		{"load", func(n *Network) { n.Load = 1001 }},
		{"load", func(n *Network) { n.Load = math.NaN() }},
		{"load", func(n *Network) { n.Load = math.Inf(1) }},
		{"load", func(n *Network) { n.Load = math.Inf(-1) }},
		{"three decimals", func(n *Network) { n.Load = 1.0 / 3 }},
		{"owners", func(n *Network) { n.Owners = 0 }},
		{"owners", func(n *Network) { n.Owners = 9 }},
		{"witnesses", func(n *Network) { n.Witnesses = 0 }},
		{"witnesses", func(n *Network) { n.Witnesses = n.Owners + 1 }},
		{"weight", func(n *Network) { n.MaxWeight = 0 }},
		{"weight", func(n *Network) { n.MaxWeight = 1<<20 + 1 }},
		{"leaf merge", func(n *Network) { n.LeafMerge = 7 }},
		{"leaf merge", func(n *Network) { n.LeafMerge = 129 }},
		{"leaf split", func(n *Network) { n.LeafSplit = n.LeafMerge }},
		{"leaf split", func(n *Network) { n.LeafSplit = 257 }},
		{"fan-out", func(n *Network) { n.FanOut = 1 }},
		{"fan-out", func(n *Network) { n.FanOut = 257 }},
		{"ids", func(n *Network) { n.IDs = "" }},
		{"1 to 3 authorities", func(n *Network) { n.IDs = CertificateIDs }},
		{"1 to 3 authorities", func(n *Network) {
			n.IDs, n.Authorities = CertificateIDs, JoinAuthorities(anyKey, anyKey, anyKey, anyKey)
		}},
		{"give each one once", func(n *Network) { n.IDs, n.Authorities = CertificateIDs, JoinAuthorities(anyKey, anyKey) }},
		{"not the public key", func(n *Network) { n.IDs, n.Authorities = CertificateIDs, "short" }},
		{"only a network with ids certificate", func(n *Network) { n.Authorities = JoinAuthorities(anyKey) }},
	} {
		n := DefaultNetwork("home")
		c.wrong(&n)
		if err := n.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want words on the %s", n, err, c.want)
		}
	}
}

var anyKey = make(ed25519.PublicKey, ed25519.PublicKeySize)

// Networks that were founded before there were kinds of ids keep their hash.
func TestOldDescriptorsHaveKeyIDs(t *testing.T) {
	n := DefaultNetwork("home")
	var m wirepb.Network
	if err := proto.Unmarshal(n.Descriptor(), &m); err != nil || m.Ids != "" || m.Authorities != nil {
		t.Errorf("%v, %v", &m, err)
	}
}

func TestDescriptorRefusals(t *testing.T) {
	good := DefaultNetwork("home").Descriptor()
	unlikely := DefaultNetwork("home")
	unlikely.Owners = 9
	huge := Encode(&wirepb.Network{Owners: math.MaxUint32, PollIntervalS: math.MaxUint32, LoadPermille: math.MaxUint32})
	for name, b := range map[string][]byte{
		"empty":                 nil,
		"cut short":             good[:len(good)-1],
		"garbage":               []byte("garbage"),
		"over the limit":        field(bytes.Clone(good), 100, make([]byte, MaxDescriptor)),
		"impossible parameters": unlikely.Descriptor(),
		"largest numbers":       append(bytes.Clone(good), huge...),
	} {
		if n, err := ParseDescriptor(b); !errors.Is(err, ErrDescriptor) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
}

// A later version may add fields. This version still reads the fields that it knows.
func TestDescriptorMayHoldMore(t *testing.T) {
	want := DefaultNetwork("home")
	if got, err := ParseDescriptor(field(want.Descriptor(), 100, []byte("new"))); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzDescriptor(f *testing.F) {
	f.Add(DefaultNetwork("home").Descriptor())
	f.Add(field(DefaultNetwork("home").Descriptor(), 100, []byte("new")))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := ParseDescriptor(b)
		if err != nil {
			if !errors.Is(err, ErrDescriptor) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		again := n.Descriptor()
		if m, err := ParseDescriptor(again); err != nil || m != n {
			t.Fatalf("%+v came back as %+v, %v", n, m, err)
		}
		var was, is wirepb.Network
		if proto.Unmarshal(b, &was) != nil || proto.Unmarshal(again, &is) != nil {
			t.Fatal("a descriptor that is no Network")
		}
		was.ProtoReflect().SetUnknown(nil)
		if !proto.Equal(&was, &is) {
			t.Fatalf("%v parsed and appended is %v", &was, &is)
		}
	})
}

// Every parameter is a setting, so that networks with different descriptors differ in a setting.
func TestSettingsAreAllParameters(t *testing.T) {
	one, two := DefaultNetwork("one"), Network{}
	if got, want := len(one.Settings()), reflect.TypeFor[Network]().NumField()-1; got != want {
		t.Errorf("%d settings of %d", got, want)
	}
	if got := strings.Count(one.Differences("flags", two, "network"), "flags: "); got != reflect.TypeFor[Network]().NumField()-2 { // both lack private addresses and authorities
		t.Errorf("%d differences: %s", got, one.Differences("flags", two, "network"))
	}
	two = one
	two.PollInterval, two.Load = 90*time.Second, 0.5
	if got, want := one.Differences("flags", two, "network"), "load (flags: 1, network: 0.5), poll-interval (flags: 30m, network: 1m30s)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Second: "10s", 0: "0s", 7 * 24 * time.Hour: "168h"} {
		if got := plainDuration(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
