// The command `e2e`: Kubernetes' own e2e specs of networking, for clusters without a cloud provider.
//
// The specs register themselves when their package is imported. What stands here is what test/e2e/e2e.go does around
// them: flags, set-up, and ginkgo. Nothing of theirs is changed, and nothing is copied.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/testinit"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	e2enode "k8s.io/kubernetes/test/e2e/framework/node"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/network"
	utilnet "k8s.io/utils/net"
)

var _ = ginkgo.SynchronizedBeforeSuite(func(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err, "loading the client")
	framework.ExpectNoError(e2enode.WaitForAllNodesSchedulable(ctx, client, time.Minute))
	nodes, err := e2enode.GetReadySchedulableNodes(ctx, client)
	framework.ExpectNoError(err)
	framework.TestContext.CloudConfig.NumNodes = len(nodes.Items)
}, func(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err, "loading the client")
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	framework.ExpectNoError(err, "getting Service kubernetes")
	framework.TestContext.IPFamily = "ipv4"
	if utilnet.IsIPv6String(service.Spec.ClusterIP) {
		framework.TestContext.IPFamily = "ipv6"
	}
})

type suite struct{ failed bool }

func (s *suite) Fail() { s.failed = true }

func main() {
	asked := flag.Bool("version", false, "print the version of Kubernetes")
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if *asked {
		fmt.Println("Kubernetes", version.Get().GitVersion)
		return
	}
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(framework.Fail)
	suiteConfig, reporterConfig := framework.CreateGinkgoConfig()
	outcome := &suite{}
	if !ginkgo.RunSpecs(outcome, "Kubernetes e2e suite", suiteConfig, reporterConfig) || outcome.failed {
		os.Exit(1)
	}
}
