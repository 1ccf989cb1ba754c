// cilium runs the load-balancing control plane of one Cilium agent, and shows its decisions as nftables rules.
//
// What decides is Cilium's own, from its module and unmodified: the reflector of Services and EndpointSlices, the writer that chooses
// backends, and the reconciler that writes them into BPF maps, which are pinned as those of an agent. What carries the decisions out in
// Cilium are its BPF programs. In their place this program reads the maps back, and writes rules that do what these say of cluster IPs and node ports.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	statedbreconciler "github.com/cilium/statedb/reconciler"
	"github.com/spf13/pflag"
	"github.com/vishvananda/netlink"

	daemonk8s "github.com/cilium/cilium/daemon/k8s"
	"github.com/cilium/cilium/pkg/bpf"
	cmtypes "github.com/cilium/cilium/pkg/clustermesh/types"
	"github.com/cilium/cilium/pkg/datapath/tables"
	envoy "github.com/cilium/cilium/pkg/envoy/config"
	"github.com/cilium/cilium/pkg/hive"
	"github.com/cilium/cilium/pkg/k8s/client"
	"github.com/cilium/cilium/pkg/k8s/resource"
	k8stables "github.com/cilium/cilium/pkg/k8s/tables"
	"github.com/cilium/cilium/pkg/kpr"
	"github.com/cilium/cilium/pkg/lbipamconfig"
	"github.com/cilium/cilium/pkg/loadbalancer"
	lbmaps "github.com/cilium/cilium/pkg/loadbalancer/maps"
	"github.com/cilium/cilium/pkg/loadbalancer/reconciler"
	"github.com/cilium/cilium/pkg/loadbalancer/reflectors"
	"github.com/cilium/cilium/pkg/loadbalancer/writer"
	"github.com/cilium/cilium/pkg/maglev"
	"github.com/cilium/cilium/pkg/metrics"
	"github.com/cilium/cilium/pkg/node"
	nodetypes "github.com/cilium/cilium/pkg/node/types"
	"github.com/cilium/cilium/pkg/nodeipamconfig"
	"github.com/cilium/cilium/pkg/option"
	"github.com/cilium/cilium/pkg/source"
)

const (
	listen = "127.0.0.1:9879" // where Cilium's agent tells its health
	look   = 5 * time.Millisecond
	udp    = 17
)

var (
	pods   []string
	uplink string
)

var protocols = map[uint8]string{6: "tcp", udp: "udp"} // of SCTP Cilium's documentation says that it is not fully supported

// common is what decides, without what follows objects and without maps.
var common = cell.Group(
	node.LocalNodeStoreCell, maglev.Cell, metrics.Cell, lbipamconfig.Cell, nodeipamconfig.Cell, cell.Config(envoy.SecretSyncConfig{}),
	cell.Provide(
		source.NewSources,
		tables.NewNodeAddressTable, statedb.RWTable[tables.NodeAddress].ToTable, // stays empty: node ports are not judged
		func() cmtypes.ClusterInfo { return cmtypes.ClusterInfo{} },
		func() *option.DaemonConfig { return &option.DaemonConfig{EnableIPv4: true, EnableIPv6: true} },
		func() kpr.KPRConfig { return kpr.KPRConfig{KubeProxyReplacement: true} },
	),
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "decide" {
		if err := decide(os.Stdin, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "define" {
		if err := define(os.Args[2]); err != nil {
			log.Fatal(err)
		}
		return
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	root := pflag.String("bpf-root", "", "where the maps are pinned: a bpffs, which is mounted there if there is none")
	pflag.StringSliceVar(&pods, "cluster-cidrs", nil, "who is a client inside of the cluster, beside this node")
	pflag.StringVar(&uplink, "uplink", "eth0", "the device that leads to other nodes")
	plane := hive.New(
		common,
		client.Cell, daemonk8s.ResourcesCell, k8stables.TablesCell, cell.Provide(followNode),
		loadbalancer.ConfigCell, writer.Cell, reflectors.Cell, lbmaps.Cell, reconciler.Cell,
		cell.Module("rules", "Shows BPF maps as nftables rules", cell.Invoke(register)),
	)
	if err := setFlags(plane, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
	bpf.CheckOrMountFS(logger, *root)
	if err := plane.Run(logger); err != nil {
		log.Fatal(err)
	}
}

func setFlags(plane *hive.Hive, arguments []string) error {
	plane.RegisterFlags(pflag.CommandLine)
	return pflag.CommandLine.Parse(arguments)
}

// nodeFollower keeps labels of the own Node, as Cilium's localNodeSynchronizer does, which also wants Cilium's own kinds in the API.
type nodeFollower struct{ nodes daemonk8s.LocalNodeResource }

func followNode(nodes daemonk8s.LocalNodeResource) node.LocalNodeSynchronizer {
	return nodeFollower{nodes}
}

func (f nodeFollower) InitLocalNode(ctx context.Context, local *node.LocalNode) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	local.Name = nodetypes.GetName()
	for event := range f.nodes.Events(ctx) {
		event.Done(nil)
		if event.Kind == resource.Upsert {
			local.Labels = event.Object.Labels
			return nil
		}
	}
	return ctx.Err()
}

func (f nodeFollower) SyncLocalNode(ctx context.Context, store *node.LocalNodeStore) {
	for event := range f.nodes.Events(ctx) {
		if event.Kind == resource.Upsert {
			store.Update(func(local *node.LocalNode) { local.Labels = event.Object.Labels })
		}
		event.Done(nil)
	}
}

func (f nodeFollower) WaitForNodeInformation(context.Context, *node.LocalNodeStore) error { return nil }

// frontend is an address that Services are reached at; one without IP is that of a node port. Where the two traffic policies
// differ, Cilium has another one for clients inside of the cluster.
type frontend struct {
	address  netip.AddrPort
	protocol uint8
	scope    uint8
}

// decisions are the backends that Cilium chose for each frontend on this node, in their order.
type decisions map[frontend][]netip.AddrPort

func (f frontend) String() string {
	text := f.address.String() + "/" + protocols[f.protocol]
	if f.scope == loadbalancer.ScopeInternal {
		text += " from inside"
	}
	return text
}

func (f frontend) matches() string {
	family, to := "ip", "fib daddr type local"
	if f.address.Addr().Is6() {
		family = "ip6"
	}
	if !f.address.Addr().IsUnspecified() {
		to = fmt.Sprintf("%s daddr %s", family, f.address.Addr())
	}
	return fmt.Sprintf("%s %s dport %d", to, protocols[f.protocol], f.address.Port())
}

type shim struct {
	cell.In

	Log       *slog.Logger
	DB        *statedb.DB
	Frontends statedb.Table[*loadbalancer.Frontend]
	Maps      lbmaps.LBMaps
	Ops       *reconciler.BPFOps
	Node      *node.LocalNodeStore // is made, and follows the Node, because somebody wants it
}

// progress is how far the rules are: they show the maps as they were written at a time. fault is why those of now were not read.
type progress struct {
	shown time.Time
	fault error
}

func register(s shim, jobs job.Group) {
	var now atomic.Pointer[progress]
	now.Store(&progress{})
	http.HandleFunc("/synced", func(answer http.ResponseWriter, _ *http.Request) {
		if lacking := s.lacking(now.Load()); lacking != "" {
			http.Error(answer, lacking, http.StatusServiceUnavailable)
		}
	})
	jobs.Add(
		job.OneShot("synced", func(context.Context, cell.Health) error { return http.ListenAndServe(listen, nil) }, job.WithShutdown()),
		job.OneShot("show", func(ctx context.Context, _ cell.Health) error { return s.follow(ctx, &now) }, job.WithShutdown()),
	)
}

// lacking returns what has not been worked on yet; "" if nothing.
func (s shim) lacking(now *progress) string {
	transaction := s.DB.ReadTxn()
	if ready, _ := s.Frontends.Initialized(transaction); !ready {
		return "Services were not read yet"
	}
	for each := range s.Frontends.All(transaction) {
		if each.Status.Kind != statedbreconciler.StatusKindDone {
			return fmt.Sprintf("%s is not in the maps yet: %s", each.ServiceName, each.Status)
		}
	}
	if !now.shown.Equal(s.Ops.GetLastUpdatedAt()) {
		return fmt.Sprint("rules do not show the maps yet: ", now.fault)
	}
	return ""
}

// follow writes rules whenever maps were written, until the context ends. Maps that were written while they were read are read again.
func (s shim) follow(ctx context.Context, now *atomic.Pointer[progress]) error {
	had := decisions{}
	for ctx.Err() == nil {
		shown, written := now.Load().shown, s.Ops.GetLastUpdatedAt()
		if !shown.Equal(written) {
			found, fault := readMaps(s.Maps)
			if fault == nil && s.Ops.GetLastUpdatedAt().Equal(written) {
				if err := apply(rules("ip", found) + rules("ip6", found)); err != nil {
					return err
				}
				s.tell(had, found)
				endFlows(had, found)
				had, shown = found, written
			}
			now.Store(&progress{shown, fault})
		}
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
	}
	return nil
}

// readMaps returns what Cilium's maps say of cluster IPs and node ports: slot 0 of a frontend has the number of backends, the slots after it name them.
func readMaps(from lbmaps.LBMaps) (decisions, error) {
	backends := map[loadbalancer.BackendID]netip.AddrPort{}
	fault := from.DumpBackend(func(key lbmaps.BackendKey, value lbmaps.BackendValue) {
		value = value.ToHost()
		backends[key.GetID()] = netip.AddrPortFrom(value.GetAddress().Addr(), value.GetPort())
	})
	counts, slots := map[frontend]int{}, map[frontend]map[int]loadbalancer.BackendID{}
	fault = errors.Join(fault, from.DumpService(func(key lbmaps.ServiceKey, value lbmaps.ServiceValue) {
		key, value = key.ToHost(), value.ToHost()
		kind := loadbalancer.ServiceFlags(value.GetFlags()).SVCType()
		if protocols[key.GetProtocol()] == "" || kind != loadbalancer.SVCTypeClusterIP && kind != loadbalancer.SVCTypeNodePort {
			return
		}
		at := frontend{netip.AddrPortFrom(key.GetAddress(), key.GetPort()), key.GetProtocol(), key.GetScope()}
		if slots[at] == nil {
			slots[at] = map[int]loadbalancer.BackendID{}
		}
		if slot := key.GetBackendSlot(); slot == 0 {
			counts[at] = value.GetCount()
		} else {
			slots[at][slot] = value.GetBackendID()
		}
	}))
	found := decisions{}
	for at, count := range counts {
		found[at] = make([]netip.AddrPort, count)
		for number := range count {
			backend, known := backends[slots[at][number+1]]
			if !known {
				fault = errors.Join(fault, fmt.Errorf("no backend in slot %d of %s", number+1, at))
			}
			found[at][number] = backend
		}
	}
	return found, fault
}

// rules returns a table of one family. As Cilium's programs do, it refuses what has no backends, lets a pod reach itself, and gives the
// node's own address to what comes from elsewhere and leaves to another node.
func rules(family string, found decisions) string {
	var inside, outside, refusedInside, refusedOutside strings.Builder
	themselves := map[string]bool{}
	for _, at := range slices.SortedFunc(maps.Keys(found), compare) {
		if at.address.Addr().Is6() != (family == "ip6") {
			continue
		}
		translations, refusals := []*strings.Builder{&inside, &outside}, []*strings.Builder{&refusedInside, &refusedOutside}
		other := at
		other.scope = loadbalancer.ScopeInternal
		if _, two := found[other]; at == other {
			translations, refusals = translations[:1], refusals[:1]
		} else if two {
			translations, refusals = translations[1:], refusals[1:]
		}
		chosen, rule := refusals, at.matches()+" reject"
		if len(found[at]) > 0 {
			var choices []string
			for number, backend := range found[at] {
				choices = append(choices, fmt.Sprintf("%d : %s . %d", number, backend.Addr(), backend.Port()))
				themselves[fmt.Sprintf("%[1]s . %[1]s", backend.Addr())] = true
			}
			chosen = translations
			rule = fmt.Sprintf("%s dnat to numgen random mod %d map { %s }", at.matches(), len(choices), strings.Join(choices, ", "))
		}
		for _, chain := range chosen {
			fmt.Fprintf(chain, "    %s\n", rule)
		}
	}
	var hairpin, sources string
	if len(themselves) > 0 {
		pairs := strings.Join(slices.Sorted(maps.Keys(themselves)), ", ")
		hairpin = fmt.Sprintf("%[1]s saddr . %[1]s daddr { %[2]s } masquerade", family, pairs)
	}
	for _, each := range pods {
		if strings.Contains(each, ":") == (family == "ip6") {
			sources += fmt.Sprintf("%s saddr %s goto inside; ", family, each)
		}
	}
	refusedSources := strings.ReplaceAll(sources, "inside", "refused-inside")
	return fmt.Sprintf(`table %[1]s cilium
delete table %[1]s cilium
table %[1]s cilium {
  chain inside {
%[2]s  }
  chain outside {
%[3]s  }
  chain refused-inside {
%[4]s  }
  chain refused-outside {
%[5]s  }
  chain from-others { type nat hook prerouting priority dstnat; %[6]s goto outside; }
  chain from-here { type nat hook output priority -100; goto inside; }
  chain refused-input { type filter hook input priority -1; ct state != new accept; %[7]s goto refused-outside; }
  chain refused-forward { type filter hook forward priority -1; ct state != new accept; %[7]s goto refused-outside; }
  chain refused-output { type filter hook output priority -1; ct state new goto refused-inside; }
  chain back {
    type nat hook postrouting priority srcnat
    ct status dnat fib saddr type local masquerade
    ct status dnat iifname %[8]s oifname %[8]s masquerade
    %[9]s
  }
}
`, family, &inside, &outside, &refusedInside, &refusedOutside, sources, refusedSources, uplink, hairpin)
}

func compare(a, b frontend) int {
	if order := a.address.Compare(b.address); order != 0 {
		return order
	}
	return int(a.protocol)<<8 + int(a.scope) - int(b.protocol)<<8 - int(b.scope)
}

func apply(text string) error {
	nft := exec.Command("nft", "-f", "-")
	nft.Stdin = strings.NewReader(text)
	if said, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w\n%s\n%s", err, said, text)
	}
	return nil
}

// tell logs what changed, with the names of Services.
func (s shim) tell(had, found decisions) {
	names := map[frontend]string{}
	for each := range s.Frontends.All(s.DB.ReadTxn()) {
		number := loadbalancer.L4TypeAsProtocolNumber(each.Address.Protocol())
		at := frontend{netip.AddrPortFrom(each.Address.Addr(), each.Address.Port()), uint8(number), each.Address.Scope()}
		names[at] = each.ServiceName.String()
	}
	for at, backends := range found {
		if old, known := had[at]; !known || !slices.Equal(old, backends) {
			s.Log.Info(fmt.Sprintf("%s at %s reaches %v", names[at], at, backends))
		}
	}
}

// endFlows ends UDP flows to backends that are not chosen any more: Cilium's programs look each datagram's backend up.
func endFlows(had, found decisions) {
	for at, backends := range had {
		if at.protocol != udp || slices.Equal(backends, found[at]) {
			continue
		}
		family := netlink.InetFamily(netlink.FAMILY_V4)
		if at.address.Addr().Is6() {
			family = netlink.FAMILY_V6
		}
		_, _ = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, staleFlow{at, found[at]})
	}
}

type staleFlow struct {
	at     frontend
	chosen []netip.AddrPort
}

func (s staleFlow) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	to, _ := netip.AddrFromSlice(flow.Forward.DstIP)
	from, _ := netip.AddrFromSlice(flow.Reverse.SrcIP)
	reached := s.at.address.Addr().IsUnspecified() || s.at.address.Addr() == to.Unmap()
	return flow.Forward.Protocol == udp && reached && flow.Forward.DstPort == s.at.address.Port() &&
		!slices.Contains(s.chosen, netip.AddrPortFrom(from.Unmap(), flow.Reverse.SrcPort))
}
