// Allure's report of one night: the configuration that the run wrote, with the history of earlier nights.
import { readFileSync } from "node:fs";

export default {
  ...JSON.parse(readFileSync("results/allurerc.json", "utf-8")),
  historyPath: "./allure-history/history.jsonl",
  appendHistory: true,
  historyLimit: 14,
};
