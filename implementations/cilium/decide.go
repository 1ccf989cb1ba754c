package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	statedbreconciler "github.com/cilium/statedb/reconciler"
	metav1 "k8s.io/apimachinery/pkg/types"

	"github.com/cilium/cilium/pkg/hive"
	"github.com/cilium/cilium/pkg/k8s"
	"github.com/cilium/cilium/pkg/k8s/client"
	"github.com/cilium/cilium/pkg/k8s/resource"
	core "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/core/v1"
	discovery "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/discovery/v1"
	meta "github.com/cilium/cilium/pkg/k8s/slim/k8s/apis/meta/v1"
	k8stables "github.com/cilium/cilium/pkg/k8s/tables"
	"github.com/cilium/cilium/pkg/loadbalancer"
	lbmaps "github.com/cilium/cilium/pkg/loadbalancer/maps"
	"github.com/cilium/cilium/pkg/loadbalancer/reconciler"
	"github.com/cilium/cilium/pkg/loadbalancer/reflectors"
	"github.com/cilium/cilium/pkg/loadbalancer/writer"
	"github.com/cilium/cilium/pkg/node"
)

// state is a line of `trafficdist check-decisions --program`: the endpoints and the policies of one Service.
type state struct {
	Endpoints []struct {
		Address                     string
		Node, Zone                  string
		ZoneHints                   []string `json:"zone_hints"`
		Ready, Serving, Terminating *bool
	}
	Internal core.ServiceInternalTrafficPolicy
	External core.ServiceExternalTrafficPolicy
}

// decider has what decides: Cilium's tables and the maps that follow from them. Maps are those of Cilium's tests, in memory.
type decider struct {
	Writer   *writer.Writer
	Maps     lbmaps.LBMaps
	Services chan resource.Event[*core.Service]
	Slices   chan resource.Event[*k8s.Endpoints]
}

// fed stands for a client of an API server: the events are fed.
type fed struct{ client.Clientset }

func (fed) IsEnabled() bool { return true }

// labelled is the Node of the decisions, with the label of its zone.
type labelled struct{ zone string }

func (l labelled) InitLocalNode(_ context.Context, local *node.LocalNode) error {
	if l.zone != "" {
		local.Labels = map[string]string{"topology.kubernetes.io/zone": l.zone}
	}
	return nil
}

func (labelled) SyncLocalNode(context.Context, *node.LocalNodeStore) {}

func (labelled) WaitForNodeInformation(context.Context, *node.LocalNodeStore) error { return nil }

// decide answers states as the node of the environment variables K8S_NODE_NAME and ZONE: one line for each, once an empty line follows.
func decide(from io.Reader, to io.Writer) error {
	d := decider{Services: make(chan resource.Event[*core.Service], 1000), Slices: make(chan resource.Event[*k8s.Endpoints], 1000)}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	plane := hive.New(
		common,
		cell.Provide(
			func() node.LocalNodeSynchronizer { return labelled{os.Getenv("ZONE")} },
			func() client.Clientset { return fed{} },
			func() lbmaps.LBMaps { return lbmaps.NewFakeLBMaps() },
			func() *loadbalancer.TestConfig { return &loadbalancer.TestConfig{} }, // reads what is fed at once
			func() (<-chan resource.Event[*core.Service], <-chan resource.Event[*k8s.Endpoints]) {
				return d.Services, d.Slices
			},
			func(db *statedb.DB) (statedb.Table[k8stables.LocalPod], error) { return k8stables.NewPodTable(db) },
			reflectors.EventStreamForBenchmark, reflectors.NetnsCookieSupportFunc,
		),
		loadbalancer.ConfigCell, writer.Cell, reconciler.Cell,
		cell.Invoke(reflectors.RegisterK8sReflector),
		cell.Invoke(func(w *writer.Writer, m lbmaps.LBMaps, _ *node.LocalNodeStore) { d.Writer, d.Maps = w, m }),
	)
	if err := setFlags(plane, []string{"--enable-service-topology"}); err != nil {
		return err
	}
	ctx := context.Background()
	if err := plane.Start(logger, ctx); err != nil {
		return err
	}
	defer plane.Stop(logger, ctx)
	lines, answers := bufio.NewScanner(from), bufio.NewWriter(to)
	lines.Buffer(nil, 1<<20)
	var batch []state
	for lines.Scan() {
		if len(lines.Bytes()) > 0 {
			var each state
			if err := json.Unmarshal(lines.Bytes(), &each); err != nil {
				return err
			}
			batch = append(batch, each)
			continue
		}
		if err := d.answer(batch, json.NewEncoder(answers)); err != nil {
			return err
		}
		if err := answers.Flush(); err != nil {
			return err
		}
		batch = batch[:0]
	}
	return lines.Err()
}

// answer decides for a batch: each state is a Service, whose endpoints have addresses of their own.
func (d decider) answer(batch []state, to *json.Encoder) error {
	services, backends := make([]*core.Service, len(batch)), 0
	slices, names := make([]*k8s.Endpoints, len(batch)), map[netip.Addr]string{}
	for number, each := range batch {
		services[number] = service(number, each)
		slice := discovery.EndpointSlice{AddressType: discovery.AddressTypeIPv4, Ports: []discovery.EndpointPort{port()}}
		slice.ObjectMeta = meta.ObjectMeta{
			Name: services[number].Name, Namespace: "default", Labels: map[string]string{"kubernetes.io/service-name": services[number].Name},
		}
		known := map[string]netip.Addr{}
		for _, one := range each.Endpoints {
			address, found := known[one.Address]
			if !found {
				address = at(128, number, len(known)+1)
				known[one.Address], names[address] = address, one.Address
			}
			endpoint := discovery.Endpoint{Addresses: []string{address.String()}, Conditions: discovery.EndpointConditions{
				Ready: one.Ready, Serving: one.Serving, Terminating: one.Terminating,
			}}
			if one.Node != "" {
				endpoint.NodeName = &one.Node
			}
			if one.Zone != "" {
				endpoint.Zone = &one.Zone
			}
			if len(one.ZoneHints) > 0 {
				endpoint.Hints = &discovery.EndpointHints{}
				for _, zone := range one.ZoneHints {
					endpoint.Hints.ForZones = append(endpoint.Hints.ForZones, discovery.ForZone{Name: zone})
				}
			}
			slice.Endpoints = append(slice.Endpoints, endpoint)
		}
		backends += len(known)
		slices[number] = k8s.ParseEndpointSliceV1(slog.New(slog.DiscardHandler), &slice)
	}
	d.feed(resource.Upsert, services, slices)
	if err := d.wait(len(batch), backends); err != nil {
		return err
	}
	found, err := readMaps(d.Maps)
	if err != nil {
		return err
	}
	for number := range batch {
		if err := to.Encode(outcomes(number, found, names)); err != nil {
			return err
		}
	}
	d.feed(resource.Delete, services, slices)
	return d.wait(0, 0)
}

func at(network, number, last int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(network + number>>8), byte(number), byte(last)})
}

func port() discovery.EndpointPort {
	name, protocol, number := "web", core.ProtocolTCP, int32(8080)
	return discovery.EndpointPort{Name: &name, Protocol: &protocol, Port: &number}
}

// service requests hints as those that a controller writes: PreferClose for zones. Cilium has no hints for nodes.
func service(number int, each state) *core.Service {
	distribution := "PreferClose"
	made := &core.Service{Spec: core.ServiceSpec{
		Type: core.ServiceTypeNodePort, ClusterIP: at(0, number, 1).String(), ClusterIPs: []string{at(0, number, 1).String()},
		Ports:                 []core.ServicePort{{Name: "web", Protocol: core.ProtocolTCP, Port: 80, NodePort: nodePort(number)}},
		InternalTrafficPolicy: &each.Internal, ExternalTrafficPolicy: each.External, TrafficDistribution: &distribution,
		IPFamilies: []core.IPFamily{core.IPv4Protocol},
	}}
	made.Name, made.Namespace = fmt.Sprint("s", number), "default"
	made.UID = metav1.UID(made.Name)
	return made
}

func nodePort(number int) int32 { return int32(20000 + number) }

func (d decider) feed(kind resource.EventKind, services []*core.Service, slices []*k8s.Endpoints) {
	for _, each := range slices {
		d.Slices <- resource.Event[*k8s.Endpoints]{Object: each, Key: resource.NewKey(each), Kind: kind, Done: func(error) {}}
	}
	for _, each := range services {
		d.Services <- resource.Event[*core.Service]{Object: each, Key: resource.NewKey(each), Kind: kind, Done: func(error) {}}
	}
}

// wait returns once the tables have this many Services and backends, and the maps show them.
func (d decider) wait(services, backends int) error {
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(look) {
		txn := d.Writer.ReadTxn()
		if d.Writer.Services().NumObjects(txn) != services || d.Writer.Backends().NumObjects(txn) != backends {
			continue
		}
		done := true
		for each := range d.Writer.Frontends().All(txn) {
			done = done && each.Status.Kind == statedbreconciler.StatusKindDone
		}
		if done {
			return nil
		}
	}
	return errors.New("the maps do not show the Services after 5 minutes")
}

// outcomes returns the decision for each client and each kind of address. As in main.go, what has no backend is refused.
func outcomes(number int, found decisions, names map[netip.Addr]string) map[string]any {
	const tcp = 6
	answers := map[string]any{}
	for kind, address := range map[string]netip.AddrPort{
		"cluster-ip": netip.AddrPortFrom(at(0, number, 1), 80),
		"node-port":  netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(nodePort(number))),
	} {
		outside := frontend{address, tcp, loadbalancer.ScopeExternal}
		inside := frontend{address, tcp, loadbalancer.ScopeInternal}
		if _, two := found[inside]; !two {
			inside = outside
		}
		for client, chosen := range map[string]frontend{"pod": inside, "node": inside, "external": outside} {
			var addresses []string
			for _, each := range found[chosen] {
				addresses = append(addresses, names[each.Addr()])
			}
			answers[client+" "+kind] = addresses
			if len(addresses) == 0 {
				answers[client+" "+kind] = "reject"
			}
		}
	}
	return answers
}
