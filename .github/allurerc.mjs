// Allure's report of one night, as the run itself wants it, with the nights before it.
import { readFileSync } from "node:fs";

export default {
  ...JSON.parse(readFileSync("results/allurerc.json", "utf-8")),
  historyPath: "./allure-history/history.jsonl",
  appendHistory: true,
  historyLimit: 14,
};
