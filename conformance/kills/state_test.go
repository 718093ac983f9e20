package kills

import (
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// TestDiffers checks the checker: each loss must be seen, and what is right must not be refused.
func TestDiffers(t *testing.T) {
	s := newState()
	put{key: "a", value: "1"}.apply(s, 2)
	grant{id: 7}.apply(s, 2)
	put{key: "b", value: "2", lease: 7}.apply(s, 3)
	before := s.clone()
	change := txn{put{key: "a", value: "3"}, remove{key: "b"}}
	after := s.clone()
	change.apply(after, unknown)

	a := func(value string, mod, version int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{
			Key: []byte("a"), Value: []byte(value), CreateRevision: 2, ModRevision: mod, Version: version,
		}
	}
	b := &mvccpb.KeyValue{Key: []byte("b"), Value: []byte("2"), CreateRevision: 3, ModRevision: 3, Version: 1, Lease: 7}
	lease := map[int64]bool{7: true}
	for _, c := range []struct {
		name   string
		state  state
		kvs    []*mvccpb.KeyValue
		leases map[int64]bool
		want   string
	}{
		{"AsItWas", before, []*mvccpb.KeyValue{a("1", 2, 1), b}, lease, ""},
		{"Changed", after, []*mvccpb.KeyValue{a("3", 4, 2)}, lease, ""},
		{"ChangedBeforeItCould", after, []*mvccpb.KeyValue{a("3", 3, 2)}, lease, "want"},
		{"HalfChanged", before, []*mvccpb.KeyValue{a("3", 4, 2), b}, lease, "another value"},
		{"HalfChangedTheOtherWay", after, []*mvccpb.KeyValue{a("3", 4, 2), b}, lease, "b is back"},
		{"Lost", before, []*mvccpb.KeyValue{b}, lease, "a is lost"},
		{"Older", before, []*mvccpb.KeyValue{a("0", 1, 1), b}, lease, "another value"},
		{"ALostLease", before, []*mvccpb.KeyValue{a("1", 2, 1), b}, map[int64]bool{}, "leases"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.state.differs(c.kvs, c.leases, 3)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
	revoke{id: 7}.apply(s, 4)
	if _, there := s.keys["b"]; there || s.leases[7] {
		t.Fatal("a revoke leaves its keys or itself")
	}
}
