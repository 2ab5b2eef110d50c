package wire

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"tidings/internal/wire/wirepb"
)

// Hash is the SHA-256 of a network's descriptor. Nodes with different hashes refuse each other.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:6]) }

// Network holds the parameters that all nodes of a network share. The founder of a network chooses
// them, and a joining node takes them from the descriptor. DefaultNetwork has the defaults; the zero value
// of a number or a text is not valid.
type Network struct {
	// Name distinguishes networks; all keys are derived from it. 1 to 64 bytes, without spaces and slashes.
	Name string
	// PollInterval is Corona's tau, the time between two polls of a channel by one node; whole seconds, 1 s to
	// 24 h. A longer one spares origins, and news is found later.
	PollInterval time.Duration
	// MaintenanceInterval is the time between two rounds of leases and of the optimiser; whole seconds, 1 s to
	// 24 h. A longer one saves messages, and failures of quorums and changes of load are noticed later.
	MaintenanceInterval time.Duration
	// BeatInterval is the time between two heartbeats of an idle log; whole seconds, 1 s to 7 days. A longer one
	// saves messages, and a lost last entry is noticed later.
	BeatInterval time.Duration
	// Objective is what the number of pollers is optimised for: lite, fast, fair, fair-sqrt or fair-log.
	Objective string
	// TargetDetection is the mean detection time for the objective fast; whole milliseconds, 1 ms to 24 h. A
	// longer one spares origins.
	TargetDetection time.Duration
	// Load is the number of allowed polls as a multiple of those that all subscribers would make, 0.001 to 1000
	// in steps of 0.001. More load finds news earlier, at the cost of the origins.
	Load     float64
	Wedge    string // sizes of wedges: base16, base2 or rank
	Clusters string // how channels are added up: paper or bins
	Phases   string // when pollers of a channel poll: random or even
	Decide   string // who decides: dag, which needs levels (not rank) and random phases, or sequencer
	// Owners is n, the number of owners of a key, 1 to 8. More survive more deaths, and cost messages and disk.
	Owners int
	// Witnesses is k, the number of signatures of a certificate, 1 to Owners. It is part of the descriptor, but no
	// node uses it.
	Witnesses int
	// MaxWeight bounds the clients that count behind one node in a channel, 1 to 1,048,576. With more, one lying
	// node draws more polls to its channels.
	MaxWeight int
	// LeafSplit is the number of members that both halves of a leaf must have before it splits, LeafMerge + 1 to
	// 256. With more, all members of a leaf know and watch more others.
	LeafSplit int
	// LeafMerge is the number of members below which a half merges with the other one, 8 to 128. The nearer to
	// LeafSplit, the more often leaves split and merge.
	LeafMerge int
	// FanOut is the number of children of a node in one tree, 2 to 256. With more, trees are flatter, and each
	// message costs a node that many transmissions.
	FanOut int
	// PrivateAddresses says that members may have private addresses.
	PrivateAddresses bool
	// IDs says what the id of a member is made of, and so what it costs to have many: key, address or certificate.
	IDs string
	// Authorities are the public keys that admit members of a network of certificates, as JoinAuthorities joins them;
	// empty in other networks.
	Authorities string
}

// These are the values of Network.IDs.
const (
	// KeyIDs makes an id of a node's public key. It costs nothing, so it is for networks of friends.
	KeyIDs = "key"
	// AddressIDs makes the id of a member of the block of its IP address and a small number, so that nobody has many
	// ids without many blocks of addresses.
	AddressIDs = "address"
	// CertificateIDs takes the id of a member from a certificate of one of the network's authorities, which drew it at
	// random.
	CertificateIDs = "certificate"
)

// MaxAuthorities is the maximum number of authorities of a network.
const MaxAuthorities = 3

// JoinAuthorities returns authorities' public keys as a value of Network.Authorities.
func JoinAuthorities(keys ...ed25519.PublicKey) string {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = base64.RawURLEncoding.EncodeToString(k)
	}
	return strings.Join(texts, ",")
}

// AuthorityKeys returns the public keys of the network's authorities.
func (n Network) AuthorityKeys() ([]ed25519.PublicKey, error) {
	if n.Authorities == "" {
		return nil, nil
	}
	var keys []ed25519.PublicKey
	for text := range strings.SplitSeq(n.Authorities, ",") {
		k, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || len(k) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("authority %q: not the public key of an authority", text)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// checkIDs returns what is wrong with the kind of ids.
func (n Network) checkIDs() error {
	keys, err := n.AuthorityKeys()
	switch {
	case err != nil:
		return err
	case n.IDs != CertificateIDs && len(keys) > 0:
		return fmt.Errorf("ids %s: only a network with ids certificate has authorities", n.IDs)
	case n.IDs == CertificateIDs && (len(keys) == 0 || len(keys) > MaxAuthorities):
		return fmt.Errorf("ids certificate: the network needs 1 to %d authorities; create it with tidings network create", MaxAuthorities)
	}
	for i, k := range keys {
		if slices.ContainsFunc(keys[:i], func(o ed25519.PublicKey) bool { return k.Equal(o) }) {
			return fmt.Errorf("authority %s: give each one once", JoinAuthorities(k))
		}
	}
	return nil
}

// DefaultNetwork returns the parameters of a network that is founded without flags.
func DefaultNetwork(name string) Network {
	return Network{
		Name:                name,
		PollInterval:        30 * time.Minute,
		MaintenanceInterval: 10 * time.Minute,
		BeatInterval:        time.Hour,
		Objective:           "lite",
		TargetDetection:     30 * time.Second,
		Load:                1,
		Wedge:               "rank",
		Clusters:            "bins",
		Phases:              "even",
		Decide:              "sequencer",
		Owners:              5,
		Witnesses:           3,
		MaxWeight:           64,
		LeafSplit:           16,
		LeafMerge:           12,
		FanOut:              16,
		IDs:                 KeyIDs,
	}
}

// MaxDescriptor is the maximum size of a descriptor in bytes.
const MaxDescriptor = 4 << 10

// ErrDescriptor says that the bytes are not a descriptor, or have impossible parameters.
var ErrDescriptor = errors.New("not a network descriptor")

var choices = map[string][]string{
	"objective": {"lite", "fast", "fair", "fair-sqrt", "fair-log"},
	"wedge":     {"base16", "base2", "rank"},
	"clusters":  {"paper", "bins"},
	"phases":    {"random", "even"},
	"decide":    {"dag", "sequencer"},
	"ids":       {KeyIDs, AddressIDs, CertificateIDs},
}

// Check returns what is wrong with the parameters of a network, in words for its founder.
func (n Network) Check() error {
	if n.Name == "" || len(n.Name) > 64 || !utf8.ValidString(n.Name) {
		return errors.New("network name: give 1 to 64 characters")
	}
	for _, r := range n.Name {
		if !unicode.IsPrint(r) || r == ' ' || r == '/' {
			return fmt.Errorf("network name %q: leave out spaces, slashes and invisible characters", n.Name)
		}
	}
	for _, c := range []struct{ what, got string }{
		{"objective", n.Objective}, {"wedge", n.Wedge}, {"clusters", n.Clusters},
		{"phases", n.Phases}, {"decide", n.Decide}, {"ids", n.IDs},
	} {
		if !slices.Contains(choices[c.what], c.got) {
			return fmt.Errorf("%s %q: choose one of %s", c.what, c.got, strings.Join(choices[c.what], ", "))
		}
	}
	if n.Decide == "dag" && (n.Wedge == "rank" || n.Phases == "even") {
		return errors.New("wedge rank and phases even: each needs decide sequencer (scheme paper has dag): ranks need a single node that decides")
	}
	for _, c := range []struct {
		what          string
		got, min, max time.Duration
		unit          time.Duration
	}{
		{"poll interval", n.PollInterval, time.Second, 24 * time.Hour, time.Second},
		{"maintenance interval", n.MaintenanceInterval, time.Second, 24 * time.Hour, time.Second},
		{"beat interval", n.BeatInterval, time.Second, 7 * 24 * time.Hour, time.Second},
		{"target detection", n.TargetDetection, time.Millisecond, 24 * time.Hour, time.Millisecond},
	} {
		if c.got < c.min || c.got > c.max || c.got%c.unit != 0 {
			unit := "seconds"
			if c.unit < time.Second {
				unit = "milliseconds"
			}
			return fmt.Errorf("%s %v: give a whole number of %s from %v to %s", c.what, c.got, unit, c.min, plainDuration(c.max))
		}
	}
	for _, c := range []struct {
		what          string
		got, min, max int
	}{
		{"owners", n.Owners, 1, 8},
		{"witnesses", n.Witnesses, 1, n.Owners},
		{"weight of a node", n.MaxWeight, 1, 1 << 20},
		// The owners of a key are members of one leaf, so no leaf may be smaller than the largest set
		// of owners.
		{"leaf merge", n.LeafMerge, 8, 128},
		{"leaf split", n.LeafSplit, n.LeafMerge + 1, 256},
		{"fan-out", n.FanOut, 2, 256},
	} {
		if c.got < c.min || c.got > c.max {
			return fmt.Errorf("%s %d: give %d to %d", c.what, c.got, c.min, c.max)
		}
	}
	if load := permille(n.Load); load < 1 || load > 1_000_000 || n.Load != float64(load)/1000 {
		return fmt.Errorf("load %v: give 0.001 to 1000, with no more than three decimals", n.Load)
	}
	return n.checkIDs()
}

func permille(load float64) int {
	if !(load >= 0 && load <= 1e6) { // also refuses NaN
		return -1
	}
	return int(load*1000 + 0.5)
}

// Descriptor encodes n. The founder encodes a network once, and all nodes forward exactly these bytes.
func (n Network) Descriptor() []byte {
	keys, _ := n.AuthorityKeys() // Check has checked them
	authorities := make([][]byte, len(keys))
	for i, k := range keys {
		authorities[i] = k
	}
	ids := n.IDs
	if ids == KeyIDs {
		ids = "" // as in descriptors from before there were other ids
	}
	return Encode(&wirepb.Network{
		Name:                 n.Name,
		PollIntervalS:        uint32(n.PollInterval / time.Second),
		MaintenanceIntervalS: uint32(n.MaintenanceInterval / time.Second),
		BeatIntervalS:        uint32(n.BeatInterval / time.Second),
		Objective:            n.Objective,
		TargetDetectionMs:    uint32(n.TargetDetection / time.Millisecond),
		LoadPermille:         uint32(permille(n.Load)),
		Wedge:                n.Wedge,
		Clusters:             n.Clusters,
		Phases:               n.Phases,
		Decide:               n.Decide,
		Owners:               uint32(n.Owners),
		Witnesses:            uint32(n.Witnesses),
		MaxWeight:            uint32(n.MaxWeight),
		LeafSplit:            uint32(n.LeafSplit),
		LeafMerge:            uint32(n.LeafMerge),
		FanOut:               uint32(n.FanOut),
		PrivateAddresses:     n.PrivateAddresses,
		Ids:                  ids,
		Authorities:          authorities,
	})
}

// Settings returns the parameters of a network except its name. The keys are the names of the flags
// that set them, if there are any, and the values have the format of those flags.
func (n Network) Settings() map[string]string {
	return map[string]string{
		"poll-interval":         plainDuration(n.PollInterval),
		"maintenance-interval":  plainDuration(n.MaintenanceInterval),
		"beat-interval":         plainDuration(n.BeatInterval),
		"objective":             n.Objective,
		"target-detection":      plainDuration(n.TargetDetection),
		"load":                  strconv.FormatFloat(n.Load, 'g', -1, 64),
		"wedge":                 n.Wedge,
		"clusters":              n.Clusters,
		"phases":                n.Phases,
		"decide":                n.Decide,
		"owners":                strconv.Itoa(n.Owners),
		"witnesses":             strconv.Itoa(n.Witnesses),
		"max-weight":            strconv.Itoa(n.MaxWeight),
		"leaf-split":            strconv.Itoa(n.LeafSplit),
		"leaf-merge":            strconv.Itoa(n.LeafMerge),
		"fan-out":               strconv.Itoa(n.FanOut),
		"allow-private-origins": strconv.FormatBool(n.PrivateAddresses),
		"ids":                   n.IDs,
		"authorities":           n.Authorities,
	}
}

// plainDuration formats a duration as 30m where Go formats 30m0s.
func plainDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Differences names the parameters in which two networks differ, with both values. ours and theirs name
// the two networks in the text, such as "flags" and "network".
func (n Network) Differences(ours string, other Network, theirs string) string {
	one, two := n.Settings(), other.Settings()
	one["network"], two["network"] = n.Name, other.Name
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(one)) {
		if one[name] != two[name] {
			differences = append(differences, fmt.Sprintf("%s (%s: %s, %s: %s)", name, ours, one[name], theirs, two[name]))
		}
	}
	return strings.Join(differences, ", ")
}

// ParseDescriptor reads a descriptor and checks it.
func ParseDescriptor(b []byte) (Network, error) {
	var m wirepb.Network
	if len(b) > MaxDescriptor {
		return Network{}, fmt.Errorf("%w: %d bytes", ErrDescriptor, len(b))
	}
	if err := proto.Unmarshal(b, &m); err != nil {
		return Network{}, fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	n := Network{
		Name:                m.Name,
		PollInterval:        time.Duration(m.PollIntervalS) * time.Second,
		MaintenanceInterval: time.Duration(m.MaintenanceIntervalS) * time.Second,
		BeatInterval:        time.Duration(m.BeatIntervalS) * time.Second,
		Objective:           m.Objective,
		TargetDetection:     time.Duration(m.TargetDetectionMs) * time.Millisecond,
		Load:                float64(m.LoadPermille) / 1000,
		Wedge:               m.Wedge,
		Clusters:            m.Clusters,
		Phases:              m.Phases,
		Decide:              m.Decide,
		Owners:              int(m.Owners),
		Witnesses:           int(m.Witnesses),
		MaxWeight:           int(m.MaxWeight),
		LeafSplit:           int(m.LeafSplit),
		LeafMerge:           int(m.LeafMerge),
		FanOut:              int(m.FanOut),
		PrivateAddresses:    m.PrivateAddresses,
		IDs:                 cmp.Or(m.Ids, KeyIDs),
	}
	if m.Ids == KeyIDs {
		return Network{}, fmt.Errorf("%w: ids %s have no name in a descriptor", ErrDescriptor, KeyIDs)
	}
	authorities := make([]ed25519.PublicKey, len(m.Authorities))
	for i, k := range m.Authorities {
		authorities[i] = k
	}
	n.Authorities = JoinAuthorities(authorities...)
	if err := n.Check(); err != nil {
		return Network{}, fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	return n, nil
}

// HashOf returns the hash of a descriptor.
func HashOf(descriptor []byte) Hash { return sha256.Sum256(descriptor) }

// Scheme names the four choices of how channels are polled: "paper" and "bound" are presets, and others
// are spelled out.
func (n Network) Scheme() string {
	switch n.choices() {
	case Paper:
		return "paper"
	case Bound:
		return "bound"
	}
	return n.Wedge + " " + n.Clusters + " " + n.Phases + " " + n.Decide
}

// Choices are the four ways in which polling schemes differ.
type Choices struct{ Wedge, Clusters, Phases, Decide string }

// The presets are the scheme of the Corona paper and the default scheme of this program.
var (
	Paper = Choices{"base16", "paper", "random", "dag"}
	Bound = Choices{"rank", "bins", "even", "sequencer"}
)

func (n Network) choices() Choices { return Choices{n.Wedge, n.Clusters, n.Phases, n.Decide} }
