// The report's figures, made to answer: each chart's data stands beside its picture, which paper keeps.
"use strict";

document.documentElement.classList.add("scripted");
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const data = document.getElementById(figure.dataset.chart);
  const holder = figure.querySelector(".live");
  if (data && holder) {
    holder.hidden = false;
    stayputCharts.draw(holder, JSON.parse(data.textContent));
    figure.classList.add("drawn");
  }
}
