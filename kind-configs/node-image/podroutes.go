// The command `podroutes` connects the pods of a kind cluster. It replaces kindnetd, which is not published as a
// Go module. Like kindnetd, without network policies, it sets up:
//
//   - the configuration of CNI's plugin ptp, with the addresses that this node may give to pods;
//   - a route on this node to the pods of each other node;
//   - masquerading for packets that pods send out of the cluster.
//
// It runs on each node, in the node's netns, and follows the list of nodes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	cniFile       = "/etc/cni/net.d/10-podroutes.conflist"
	routeProtocol = 98 // ours, to tell our routes from everybody else's
	again         = 30 * time.Second
	chain         = "PODROUTES-OUT"
)

func main() {
	log.SetFlags(0)
	client, err := connect()
	if err != nil {
		log.Fatalf("the API server cannot be reached: %v", err)
	}
	factory := informers.NewSharedInformerFactory(client, again)
	nodes := factory.Core().V1().Nodes()
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // it is told already
		}
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { tell() },
		UpdateFunc: func(_, _ any) { tell() },
		DeleteFunc: func(any) { tell() },
	}); err != nil {
		log.Fatal(err)
	}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	self := os.Getenv("NODE_NAME")
	said := ""
	for range changed {
		listed, err := nodes.Lister().List(labels.Everything())
		if err == nil {
			err = connectPods(self, listed)
		}
		if err != nil {
			if err.Error() != said {
				log.Print(err)
			}
			said = err.Error()
			time.AfterFunc(time.Second, tell)
		}
	}
}

// connect returns a client that does not use the cluster IP of the API server, because kube-proxy may not run yet.
func connect() (*kubernetes.Clientset, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	if endpoint := os.Getenv("CONTROL_PLANE_ENDPOINT"); endpoint != "" {
		config.Host = "https://" + endpoint
	}
	return kubernetes.NewForConfig(config)
}

func connectPods(self string, nodes []*corev1.Node) error {
	wanted := map[string]net.IP{}
	for _, node := range nodes {
		for _, text := range node.Spec.PodCIDRs {
			_, pods, err := net.ParseCIDR(text)
			if err != nil {
				return fmt.Errorf("node %s: %w", node.Name, err)
			}
			via := addressOf(node, pods.IP.To4() == nil)
			if node.Name != self && via != nil {
				wanted[pods.String()] = via
			}
		}
		if node.Name == self {
			if err := configure(node.Spec.PodCIDRs); err != nil {
				return err
			}
		}
	}
	if err := masquerade(strings.Split(os.Getenv("POD_SUBNET"), ",")); err != nil {
		return err
	}
	return route(wanted)
}

func addressOf(node *corev1.Node, six bool) net.IP {
	for _, each := range node.Status.Addresses {
		address := net.ParseIP(each.Address)
		if each.Type == corev1.NodeInternalIP && address != nil && (address.To4() == nil) == six {
			return address
		}
	}
	return nil
}

// configure writes the CNI configuration atomically. It writes nothing while the node has no addresses for pods.
func configure(own []string) error {
	if len(own) == 0 {
		return nil
	}
	ranges, routes := [][]map[string]string{}, []map[string]string{}
	for _, subnet := range own {
		ranges = append(ranges, []map[string]string{{"subnet": subnet}})
		if strings.Contains(subnet, ":") {
			routes = append(routes, map[string]string{"dst": "::/0"})
		} else {
			routes = append(routes, map[string]string{"dst": "0.0.0.0/0"})
		}
	}
	ipam := map[string]any{
		"type": "host-local", "dataDir": "/run/cni-ipam-state", "ranges": ranges, "routes": routes,
	}
	text, err := json.MarshalIndent(map[string]any{
		"cniVersion": "0.3.1",
		"name":       "podroutes",
		"plugins": []map[string]any{
			{"type": "ptp", "ipMasq": false, "mtu": mtu(), "ipam": ipam},
			{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	if there, err := os.ReadFile(cniFile); err == nil && bytes.Equal(there, text) {
		return nil
	}
	next := filepath.Join(filepath.Dir(cniFile), ".next")
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return err
	}
	return os.Rename(next, cniFile)
}

func mtu() int {
	link, err := net.InterfaceByName("eth0")
	if err != nil {
		return 1500
	}
	return link.MTU
}

func route(wanted map[string]net.IP) error {
	there, err := netlink.RouteListFiltered(
		netlink.FAMILY_ALL, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL,
	)
	if err != nil {
		return err
	}
	for _, each := range there {
		if each.Dst == nil {
			continue
		}
		if via := wanted[each.Dst.String()]; via == nil || !via.Equal(each.Gw) {
			if err := netlink.RouteDel(&each); err != nil {
				return fmt.Errorf("route to %s: %w", each.Dst, err)
			}
		}
	}
	for text, via := range wanted {
		_, pods, err := net.ParseCIDR(text)
		if err != nil {
			return err
		}
		if err := netlink.RouteReplace(&netlink.Route{Dst: pods, Gw: via, Protocol: routeProtocol}); err != nil {
			return fmt.Errorf("route to %s by %s: %w", pods, via, err)
		}
	}
	return nil
}

// masquerade gives packets that pods send out of the cluster the node's address.
func masquerade(podSubnets []string) error {
	for prefix, six := range map[string]bool{"iptables": false, "ip6tables": true} {
		rules := []string{"*nat", ":" + chain + " - [0:0]"}
		own := 0
		for _, subnet := range podSubnets {
			if strings.Contains(subnet, ":") == six {
				rules = append(rules, fmt.Sprintf("-A %s -d %s -j RETURN", chain, subnet))
				own++
			}
		}
		for _, subnet := range podSubnets {
			if strings.Contains(subnet, ":") == six {
				rules = append(rules, fmt.Sprintf("-A %s -s %s -j MASQUERADE", chain, subnet))
			}
		}
		if own == 0 {
			continue
		}
		jump := []string{"POSTROUTING", "-m", "addrtype", "!", "--dst-type", "LOCAL", "-j", chain}
		if err := run(strings.Join(append(rules, "COMMIT", ""), "\n"), prefix+"-restore", "--noflush", "-w"); err != nil {
			return err
		}
		if run("", prefix, append([]string{"-w", "-t", "nat", "-C"}, jump...)...) == nil {
			continue
		}
		if err := run("", prefix, append([]string{"-w", "-t", "nat", "-A"}, jump...)...); err != nil {
			return err
		}
	}
	return nil
}

func run(input string, name string, arguments ...string) error {
	command := exec.Command(name, arguments...)
	command.Stdin = strings.NewReader(input)
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(said)))
	}
	return nil
}
